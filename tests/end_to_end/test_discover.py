"""`discover` from data to pages: a tiny run, interruptions at any job, names, more minutes and new pictures."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import unbraid
from unbraid.cli import app
from unbraid.core.errors import TrainingInterrupted, UnbraidError
from unbraid.discovery import plan as plans
from unbraid.discovery import results, training_stages
from unbraid.discovery.new_pictures import transform
from unbraid.discovery.plan import DiscoveryPlan
from unbraid.discovery.time_limit import TimeLimit
from unbraid.runs.folder.leaf_names import read_leaf_names
from unbraid.sweeps.engine.job_runner import claim_and_run

NASTY = "<script>alert(1)</script> & 'width'"


@pytest.fixture
def in_process(monkeypatch):
    """Train jobs in this process: starting workers takes longer than these runs. `stop_before` interrupts a job."""
    control = {"stop_before": -1, "done": 0}

    def run_here(plan, workers, display):
        results = {}
        for job in plan.jobs:
            if control["done"] == control["stop_before"]:
                raise TrainingInterrupted("stopped by the test")
            results[job.name] = claim_and_run(job, plan.folder, None)
            control["done"] += 1
        return results

    monkeypatch.setattr(training_stages, "run_plan", run_here)
    monkeypatch.setattr(plans, "MIN_FIRST_STEPS", 6)
    monkeypatch.setattr(plans, "MAX_FIRST_STEPS", 6)  # the same plan on a fast machine
    monkeypatch.setattr(plans, "COMPARABLE_FIRST_STEPS", 0)
    monkeypatch.setattr(plans, "RUNG_RATIOS", (1.0, 2.0, 3.0))
    monkeypatch.setattr(TimeLimit, "adjust", lambda limit, plan, finished, count, confirmed: plan)
    monkeypatch.setattr("unbraid.sweeps.planning.cost_estimate.TRIAL_SECONDS", 0.0)
    return control


@pytest.fixture(scope="module")
def bars() -> np.ndarray:
    """Small pictures of a bar with two factors: position and brightness."""
    pictures = np.zeros((60, 8, 8), np.uint8)
    for k in range(60):
        pictures[k, :, k % 6 : k % 6 + 2] = 100 + 15 * (k // 6)
    return pictures


def small_discovery(data, out, **options):
    return unbraid.discover(data, out, **{"minutes": 0.05, "seeds": 2, "latents": 3, "quiet": True, **options})


def test_one_call_leaves_a_page_codes_and_a_run_like_any_other(in_process, bars, tmp_path):
    found = small_discovery(bars, tmp_path / "found")
    assert found.complete
    text = found.page.read_text()
    assert "other seeds" in text
    files = r'<a href="(explore\.html|codes\.csv)">'
    assert not re.search(r"(src|href)=\"(?!data:|#)", re.sub(files, "", text)), "the page makes no request"
    assert str(tmp_path) not in text, "the page names no folder of this machine"
    rows = list(csv.reader(found.codes_table.read_text().splitlines()))
    assert len(rows) == 61
    assert rows[0][0] == "file"
    run = unbraid.Run.load(found.folder / "best")
    assert run.encode(run.dataset().pixels([0])).shape == (1, 3)
    assert (found.folder / "explore.html").is_file()
    assert {f["status"] for f in found.factors} <= {"preliminary", "partly stable", "unstable", "weak"}
    again = small_discovery(bars, tmp_path / "found")
    assert again.result == found.result


def test_a_dry_run_stops_before_training(in_process, bars, tmp_path):
    assert small_discovery(bars, tmp_path / "dry", dry=True).result == {}
    assert in_process["done"] == 0
    plan = DiscoveryPlan.load(tmp_path / "dry")
    assert plan.seeds == 2
    assert [rung.steps for rung in plan.rungs] == [6, 12, 18]
    small_discovery(bars, tmp_path / "dry")
    assert DiscoveryPlan.load(tmp_path / "dry") == plan, "the stored plan is the one that is trained"


@pytest.mark.slow
def test_a_discovery_that_was_interrupted_anywhere_continues_to_the_same_choice(in_process, bars, tmp_path):
    whole = small_discovery(bars, tmp_path / "whole")
    total = in_process["done"]
    plan = json.loads((tmp_path / "whole/plan.json").read_text())
    for stop in np.random.default_rng(0).permutation(total)[:3]:
        out = tmp_path / f"stop{stop}"
        small_discovery(bars, out, dry=True)
        local = json.loads((out / "plan.json").read_text())
        shared = {
            **plan,
            "settings": [
                {**s, "recipe": one["recipe"]} for s, one in zip(plan["settings"], local["settings"], strict=True)
            ],
        }
        (out / "plan.json").write_text(json.dumps(shared))
        in_process.update(done=0, stop_before=int(stop))
        with pytest.raises(TrainingInterrupted, match="the same command continues|The same command continues"):
            small_discovery(bars, out)
        assert (
            "not finished" in (out / "discovery.html").read_text()
            or "No run is finished" in (out / "discovery.html").read_text()
        )
        in_process.update(done=0, stop_before=-1)
        continued = small_discovery(bars, out)
        assert continued.result["run"] == whole.result["run"]
        assert continued.result["factors"] == whole.result["factors"]


def test_more_minutes_continue_the_same_runs_and_keep_names(in_process, bars, tmp_path):
    first = small_discovery(bars, tmp_path / "more")
    leaf = unbraid.Run.load(first.folder / "best").recipe.tree.leaves[0].name
    done = CliRunner().invoke(app, ["name", str(first.folder / "best"), leaf, NASTY])
    assert done.exit_code == 0, done.output
    second = small_discovery(bars, tmp_path / "more", more=0.05)
    assert second.result["steps"] > first.result["steps"]
    assert second.complete
    if second.result["run"] == first.result["run"]:
        assert read_leaf_names(second.folder / "best") == {leaf: NASTY}


def test_names_are_shown_and_escaped_everywhere(in_process, bars, tmp_path):
    from unbraid.export import EXPORTS
    from unbraid.figures.report import report

    found = small_discovery(bars, tmp_path / "named")
    best = found.folder / "best"
    leaf = found.factors[0]["leaf"] if found.factors else "z0"
    assert CliRunner().invoke(app, ["name", str(best), leaf, NASTY]).exit_code == 0
    run = unbraid.Run.load(best)
    pages = [found.page, report(run), EXPORTS["html"](run, None), EXPORTS["hub"](run, None) / "README.md"]
    for page in pages:
        assert "<script>alert" not in page.read_text(), page.name
    for page in pages[:1] if found.factors else []:
        assert "&lt;script&gt;" in page.read_text()
    assert "\\u003cscript" in pages[2].read_text()
    assert json.loads((best / "hub/config.json").read_text())["leaf_names"] == {leaf: NASTY}
    assert "&lt;script&gt;" in pages[3].read_text()
    listed = CliRunner().invoke(app, ["name", str(best)]).output
    assert NASTY in listed
    if found.factors:
        assert any(NASTY in head for head in next(csv.reader(found.codes_table.read_text().splitlines())))
    renamed = found.name_factor(leaf, "angle")
    assert read_leaf_names(best) == {leaf: "angle"}
    assert [f["name"] for f in renamed.factors] == ["angle" if f["leaf"] == leaf else "" for f in found.factors]
    wrong = CliRunner().invoke(app, ["name", str(best), "z99", "x"])
    assert isinstance(wrong.exception, UnbraidError)


def test_new_pictures_of_any_size_are_encoded_and_unusual_ones_marked(in_process, bars, tmp_path):
    found = small_discovery(bars, tmp_path / "found")
    place = tmp_path / "new"
    place.mkdir()
    Image.fromarray(bars[3]).save(place / "known.png")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)).save(place / "noise.png")
    (place / "broken.png").write_bytes(b"no picture")
    done = transform(found.folder / "best", place, tmp_path / "new.csv", batch=1, quiet=True)
    rows = {row["file"]: row for row in csv.DictReader((tmp_path / "new.csv").read_text().splitlines())}
    assert rows.keys() == {"known.png", "noise.png"}
    assert done.skipped.keys() == {"broken.png"}
    assert float(rows["noise.png"]["elbo_percentile"]) < float(rows["known.png"]["elbo_percentile"])
    with open(found.codes_table) as table, open(tmp_path / "new.csv") as new:
        assert next(csv.reader(new))[1:-1] == next(csv.reader(table))[1:], "unstable leaves are marked here too"
    assert transform(found.folder / "best", place / "known.png", tmp_path / "one.csv", quiet=True).count == 1
    found.transform(place, tmp_path / "all.csv", all_leaves=True, quiet=True)
    with open(tmp_path / "all.csv") as table:
        assert len(next(csv.reader(table))) == 2 + 3
    with pytest.raises(UnbraidError, match=r"found/best, the chosen run"):
        transform(found.folder, place, tmp_path / "new.csv")
    with pytest.raises(UnbraidError, match=r"\.csv"):
        transform(found.folder / "best", place, tmp_path / "new.txt", quiet=True)


def test_vectors_are_standardised_and_transformed_alike(in_process, tmp_path):
    rows = np.random.default_rng(0).normal(size=(80, 5)) * [1, 10, 100, 1, 1] + 3
    found = small_discovery(rows.astype(np.float32), tmp_path / "rows")
    assert found.data.kind == "vectors"
    np.save(tmp_path / "more.npy", rows[:7].astype(np.float32))
    assert transform(found.folder / "best", tmp_path / "more.npy", tmp_path / "rows.csv", quiet=True).count == 7


def test_a_notebook_shows_the_plan_first_and_then_the_factors(in_process, bars, tmp_path):
    planned = small_discovery(bars, tmp_path / "<b>found", dry=True)
    assert "2 seeds; steps per run" in repr(planned)
    assert "&lt;b&gt;found" in planned._repr_html_()
    found = small_discovery(bars, tmp_path / "<b>found")
    page = found._repr_html_()
    assert "<b>" not in page
    assert page.count("<tr>") == (1 + len(found.factors) if found.factors else 0)
    result = {**found.result, "factors": [{**f, "status": "stable"} for f in found.factors]}
    assert ("data:image/png" in replace(found, result=result)._repr_html_()) == bool(found.factors)


def test_weak_leaves_take_one_line(in_process, bars, tmp_path):
    found = small_discovery(bars, tmp_path / "found")
    row = {"leaf": "z0", "name": "", "nats": 0.1, "found": 0, "seeds": 3, "kind": "continuous", "status": "weak"}
    clear = {**row, "leaf": "z2", "name": "width", "status": "stable"}
    lines = replace(found, result={**found.result, "factors": [clear, row, {**row, "leaf": "z1"}]}).lines()
    assert re.fullmatch(r" +z2 'width' +stable +found in 0 of 3 other seeds, 0\.10 nats, continuous", lines[-2])
    assert lines[-1] == "  too weak to see: z0, z1"


def test_the_page_says_of_preliminary_leaves_that_the_training_was_short(in_process, bars, tmp_path):
    found = small_discovery(bars, tmp_path / "found")
    first = {"leaf": "z0", "name": "", "kind": "continuous", "found": 3, "seeds": 3, "nats": 1.0, "histogram": [1]}
    first |= {"correlation": None, "low": None, "high": None, "reordered": 0, "divided": 0, "change": None}
    for status, words in {"preliminary": "too little training", "unstable": "All or some of the other seeds"}.items():
        result = {**found.result, "factors": [{**first, "status": status}]}
        (found.folder / "discovery.json").write_text(json.dumps(result))
        results.refresh_names(found.folder / "best")
        assert words in found.page.read_text()


def test_other_options_make_another_plan_until_training_has_begun(in_process, bars, tmp_path, capsys):
    out = tmp_path / "found"
    small_discovery(bars, out, dry=True)
    assert small_discovery(bars, out, dry=True, latents=2).plan.settings[0].recipe["latent"] == 2
    small_discovery(bars, out, latents=2)
    capsys.readouterr()
    assert small_discovery(bars, out, latents=5, seeds=4, quiet=False).plan.settings[0].recipe["latent"] == 2
    assert "its seeds, latents stay" in capsys.readouterr().out


def test_the_page_and_the_explorer_name_no_folder_and_link_each_other(in_process, bars, tmp_path):
    folder = tmp_path / "secret" / "bars"
    folder.mkdir(parents=True)
    for k, picture in enumerate(bars):
        Image.fromarray(picture).save(folder / f"{k:02d}.png")
    (folder / "broken.png").write_bytes(b"")
    found = small_discovery(folder, tmp_path / "found")
    for page in (found.page.read_text(), (found.folder / "explore.html").read_text()):
        assert "Factors of bars" in page
        assert "secret" not in page
    assert '<a href="explore.html">' in found.page.read_text()
    if found.factors:
        assert re.search(r"<summary>names</summary>\d\d\.png, ", found.page.read_text()), (
            "pictures at the ends are named"
        )


def test_the_page_of_a_table_names_the_columns_that_a_factor_changes(in_process, tmp_path):
    values = np.random.default_rng(0).normal(size=(80, 3))
    (tmp_path / "t.csv").write_text("\n".join(["height,<weight>,age", *(",".join(map(str, row)) for row in values)]))
    found = small_discovery(tmp_path / "t.csv", tmp_path / "found", latents=2)
    assert found.data.columns == ("height", "<weight>", "age")
    page = found.page.read_text()
    assert "picture" not in page.replace("pictures.npy", "").split("<body>")[1]
    assert not found.factors or re.search(r"(height|&lt;weight&gt;|age)\xa0[+−]\d", page)
    np.save(tmp_path / "t.npy", values)
    unnamed = small_discovery(tmp_path / "t.npy", tmp_path / "unnamed", dry=True)
    assert unnamed.data.columns == ("column_0", "column_1", "column_2"), "a factor is a leaf"
    from unbraid.discovery.discovery_page import _column_changes

    strip = np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.5]])[..., None, None]
    assert _column_changes(strip, ("a", "b-c", "d"), signed=True) == ["b-c\xa0−2.0", "d\xa0+0.5"]
    new, out, options = tmp_path / "new.csv", tmp_path / "codes.csv", {"labels": "kind"}
    new.write_text("age,height,<weight>,kind\n1,2,3,a\n")
    with pytest.raises(UnbraidError, match="another order"):
        transform(found.folder / "best", new, out, options=options, quiet=True)
    new.write_text("height,<weight>,age,kind\n1,2,3,a\n")
    assert transform(found.folder / "best", new, out, options=options, quiet=True).count == 1
    assert _column_changes(strip, (), signed=False) == ["column_1\xa02.0", "column_2\xa00.5"]


def test_two_discoveries_do_not_share_a_folder(in_process, bars, tmp_path):
    from unbraid.core.locks import file_lock

    with file_lock(tmp_path / "busy/.lock"), pytest.raises(UnbraidError, match="another process"):
        small_discovery(bars, tmp_path / "busy")


def test_a_plan_gets_more_settings_with_more_time(bars, tmp_path):
    from unbraid.discovery.data_inspection import prepare_data
    from unbraid.discovery.plan import candidate_settings, make_plan

    summary = prepare_data(bars, tmp_path / "data", quiet=True)
    settings = [replace(s, step_seconds=0.01) for s in candidate_settings(summary, tmp_path / "data")]
    short, long = (make_plan(settings, 60 * m, m, 2, summary.digest) for m in (2, 30))
    assert len(short.settings) < len(long.settings)
    assert long.rungs[-1].steps > short.rungs[-1].steps
    assert short.seconds < 2 * 60
    assert long.seconds < 30 * 60
    kinds = {s.name.split("-")[0] for s in long.settings}
    assert {"beta_tcvae", "hfvae"} <= kinds
    low = settings[0].lowered()
    assert low.recipe["objective"]["beta"] == pytest.approx(settings[0].recipe["objective"]["beta"] / 4, rel=0.01)
    assert low.complexity < settings[0].complexity, "of settings that cannot be told apart the lowest price is taken"
    discrete = next(s for s in settings if s.name.startswith("hfvae"))
    assert max(s.complexity for s in settings if "beta" in s.name) < discrete.lowered().complexity < discrete.complexity


@pytest.mark.slow
def test_the_command_trains_with_workers_and_prints_what_it_found(bars, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "bars"
    place.mkdir()
    for k, picture in enumerate(bars):
        Image.fromarray(picture).save(place / f"{k:02d}.png")
    done = CliRunner().invoke(
        app, ["discover", "bars", "--minutes", "0.1", "--seeds", "2", "--workers", "1", "--quiet"]
    )
    assert done.exit_code == 0, done.output
    assert "page:" in done.output
    assert (tmp_path / "discovery/codes.csv").read_text().splitlines()[1].startswith("00.png,")


def contents(folder) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def test_a_refused_call_changes_no_file_and_says_what_differs(in_process, bars, tmp_path):
    small_discovery(bars, tmp_path / "found")
    before = contents(tmp_path / "found")
    with pytest.raises(UnbraidError, match=r"60, 8×8 by --resize crop\) then, .* 50, 8×8"):
        small_discovery(bars[:50], tmp_path / "found")
    with pytest.raises(UnbraidError, match="16×16"):
        small_discovery(bars, tmp_path / "found", size=16)
    assert contents(tmp_path / "found") == before


def test_before_training_other_data_and_sizes_make_another_plan(in_process, bars, tmp_path):
    out = tmp_path / "found"
    small_discovery(bars, out, dry=True)
    assert small_discovery(bars, out, dry=True, size=16).data.shape == (1, 16, 16)
    found = small_discovery(bars[:50], out)
    assert (found.data.distinct, len(found.codes_table.read_text().splitlines())) == (50, 51)


def test_a_setting_whose_runs_all_fail_is_dropped_and_the_others_are_compared(in_process, bars, tmp_path):
    out = tmp_path / "found"
    plan = small_discovery(bars, out, dry=True).plan
    assert len(plan.settings) > 1
    bad = replace(plan.settings[0], recipe={**plan.settings[0].recipe, "nets": {"name": "conv", "act": "nope"}})
    replace(plan, settings=(bad, *plan.settings[1:])).save(out)
    found = small_discovery(bars, out)
    assert found.complete
    assert found.result["setting"] == plan.settings[1].name
    assert "2 of its runs failed" in found.page.read_text()
    assert "failed, collapsed or stopped earlier" in found.result["reason"]
    assert small_discovery(bars, out).result == found.result


def test_an_interrupted_extension_keeps_the_finished_result_and_its_names(in_process, bars, tmp_path):
    out = tmp_path / "found"
    first = small_discovery(bars, out)
    leaf = unbraid.Run.load(first.folder / "best").recipe.tree.leaves[0].name
    assert CliRunner().invoke(app, ["name", str(out / "best"), leaf, "width"]).exit_code == 0
    in_process.update(done=0, stop_before=1)
    with pytest.raises(TrainingInterrupted):
        small_discovery(bars, out, more=0.05)
    kept = unbraid.Discovery.load(out)
    assert kept.complete
    assert len(kept.result["runs"]) == len(first.result["runs"]) == 4
    assert read_leaf_names(out / "best") == {leaf: "width"}
    in_process.update(done=0, stop_before=-1)
    last = small_discovery(bars, out)
    assert last.complete
    assert last.result["steps"] == last.plan.rungs[-1].steps > first.result["steps"]
    names = {*read_leaf_names(out / "best").values(), *last.result["lost_names"]}
    assert names == {"width"}, "a name is on a leaf, or listed as one without"


def test_an_extension_that_stopped_at_its_last_seeds_is_finished_and_not_extended_again(in_process, bars, tmp_path):
    out = tmp_path / "found"
    small_discovery(bars, out)
    in_process.update(done=0)
    whole = small_discovery(bars, tmp_path / "whole")
    in_process.update(done=0)
    small_discovery(bars, tmp_path / "whole", more=0.05)
    jobs = in_process["done"]
    in_process.update(done=0, stop_before=jobs - 1)  # the second confirming seed
    with pytest.raises(TrainingInterrupted):
        small_discovery(bars, out, more=0.05)
    in_process.update(done=0, stop_before=-1)
    found = small_discovery(bars, out, more=0.05)
    assert found.complete
    assert len(found.plan.rungs) == len(whole.plan.rungs) + 1
    assert (found.plan.added, len(found.result["runs"])) == (1, 4)


def test_ctrl_c_while_the_pages_are_written_waits_for_them(in_process, bars, tmp_path, monkeypatch, capsys):
    whole = results.encode_everything

    def interrupted(best, summary):
        os.kill(os.getpid(), signal.SIGINT)
        return whole(best, summary)

    monkeypatch.setattr(results, "encode_everything", interrupted)
    found = small_discovery(bars, tmp_path / "found", quiet=False)
    assert "stopping after the pages" in capsys.readouterr().out
    assert found.complete
    assert found.page.is_file()

    def twice(best, summary):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return whole(best, summary)

    monkeypatch.setattr(results, "encode_everything", twice)
    with pytest.raises(TrainingInterrupted, match="the same command writes them"):
        small_discovery(bars, tmp_path / "other")
    monkeypatch.setattr(results, "encode_everything", whole)
    assert small_discovery(bars, tmp_path / "other").complete


def test_a_moved_discovery_can_be_used_and_says_where_it_must_be_to_continue(in_process, bars, tmp_path):
    small_discovery(bars, tmp_path / "here")
    moved = (tmp_path / "here").rename(tmp_path / "there")
    done = CliRunner().invoke(app, ["name", str(moved / "best"), "z0", "width"])
    assert done.exit_code == 0, done.output
    assert done.output.count("updated: ") == 3
    assert "width" in (moved / "discovery.html").read_text()
    assert transform(moved / "best", bars[:5], tmp_path / "new.csv", quiet=True).count == 5
    assert small_discovery(bars, moved).complete
    with pytest.raises(UnbraidError, match=r"was moved.*Move the folder back to .*here"):
        small_discovery(bars, moved, more=0.05)


def test_a_moved_discovery_reads_its_own_data_though_another_one_has_its_place(in_process, bars, tmp_path):
    small_discovery(bars, tmp_path / "here")
    moved = (tmp_path / "here").rename(tmp_path / "there")
    small_discovery(255 - bars, tmp_path / "here", dry=True)
    assert len(unbraid.Discovery.load(moved).best.dataset()) == 48
    done = CliRunner().invoke(app, ["name", str(moved / "best"), "z0", "width"])
    assert done.output.count("updated: ") == 3, done.output
    before = contents(moved)
    with pytest.raises(UnbraidError, match=r"was moved.*other data in .*here"):
        small_discovery(bars, moved, more=0.05)
    assert contents(moved) == before
    shutil.rmtree(tmp_path / "here")
    shutil.copytree(moved, tmp_path / "here")
    assert small_discovery(bars, moved, more=0.05).complete, "a copy reads the same data in the former place"


def test_the_next_step_repeats_the_options_that_decide_the_data(in_process, bars, tmp_path):
    place = tmp_path / "bars"
    place.mkdir()
    for k, picture in enumerate(bars):
        Image.fromarray(picture).save(place / f"{k:02d}.png")
    command = ["discover", str(place), "--out", str(tmp_path / "found"), "--size", "8", "--max-pictures", "50"]
    done = CliRunner().invoke(app, [*command, "--minutes", "0.05", "--seeds", "2", "--latents", "3", "--quiet"])
    assert done.exit_code == 0, done.output
    assert "--size 8 --max-pictures 50 --more 20" in done.output


def test_a_name_given_in_the_studio_is_on_the_page_and_in_the_table(in_process, bars, tmp_path):
    fastapi, client = pytest.importorskip("fastapi"), pytest.importorskip("starlette.testclient")
    from unbraid.studio.routes import register_naming
    from unbraid.studio.run_library import Library

    async def run_in_thread(work, *arguments):
        return work(*arguments)

    found = small_discovery(bars, tmp_path / "found")
    web = fastapi.FastAPI()
    register_naming(web, Library(tmp_path / "found"), run_in_thread)
    leaf = found.factors[0]["leaf"]
    asked = {"run": "best", "leaf": leaf, "name": "bar's place"}
    assert client.TestClient(web).post("/studio/name", content=json.dumps(asked)).text == "named"
    assert "bar&#39;s place" in found.page.read_text()
    assert "bar's place" in found.codes_table.read_text().splitlines()[0]
