"""The studio in a real browser: sliders by keys, traversals, trade-offs, trainings, uploads, access control."""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unbraid.studio import train_processes
from unbraid.studio.run_library import Library

pytestmark = pytest.mark.slow


def canvas_pixels(page, canvas: str = "image") -> np.ndarray:
    """The pixels of a canvas."""
    script = """id => {
      const c = document.getElementById(id);
      return Array.from(c.getContext("2d").getImageData(0, 0, c.width, c.height).data);
    }"""
    return np.array(page.evaluate(script, canvas))


def open_explorer(page, run: str):
    """Open a run and unfold all its leaves."""
    page.go(f"/explore?run={run}")
    page.wait_for_selector("#explorer[data-ready=yes]")
    page.evaluate("document.getElementById('folded').open = true")
    return page


def frame_count(page) -> int:
    """Number of images that were decoded after slider moves."""
    return int(page.evaluate("Number(document.getElementById('image').dataset.frames || 0)"))


def test_the_token_has_left_the_address_and_scripts_cannot_read_it(signed_in_tab, studio):
    token = studio["open"].split("token=")[1]
    assert "token" not in signed_in_tab.url
    assert token not in signed_in_tab.evaluate("document.cookie")
    kept = [c for c in signed_in_tab.context.cookies() if c["value"] == token]
    assert len(kept) == 1
    assert kept[0]["httpOnly"]
    assert kept[0]["sameSite"] == "Strict"


def test_keys_move_a_slider_and_the_image_follows(signed_in_tab):
    page = open_explorer(signed_in_tab, "vae")
    before, count = canvas_pixels(page), frame_count(page)
    slider = page.locator(".leaf input[type=range]").first
    slider.focus()
    for _ in range(15):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(f"Number(document.getElementById('image').dataset.frames) > {count}")
    page.wait_for_timeout(500)
    assert not np.array_equal(canvas_pixels(page), before)
    page.keyboard.press("r")
    page.wait_for_timeout(1500)
    assert np.array_equal(canvas_pixels(page), before)


def test_images_posteriors_interpolation_and_swaps(signed_in_tab):
    page = open_explorer(signed_in_tab, "hfvae_discrete")
    assert canvas_pixels(page, "input").max() > 0
    assert page.locator(".band").first.get_attribute("title").startswith("posterior")
    page.get_by_role("button", name="Next image").click()
    page.get_by_role("button", name="Keep as A").click()
    page.locator("#strip button").nth(7).click()
    page.wait_for_timeout(800)
    page.get_by_role("button", name="Draw from the prior").click()
    page.wait_for_timeout(800)
    page.get_by_role("button", name="Keep as B").click()
    between = page.get_by_label("Between A and B", exact=True)
    between.focus()
    page.keyboard.press("End")
    page.wait_for_timeout(800)
    assert np.array_equal(page.evaluate("Array.from(code)"), page.evaluate("Array.from(Float32Array.from(slots.b))"))
    page.locator("#node").select_option("digit")
    page.get_by_role("button", name="that of A, rest of B").click()
    code, a, b = (
        np.array(page.evaluate(f"Array.from(Float32Array.from({w}))")) for w in ("code", "slots.a", "slots.b")
    )
    columns = page.evaluate("content.nodes.digit")
    rest = [i for i in range(len(code)) if i not in columns]
    assert np.array_equal(code[columns], a[columns])
    assert np.array_equal(code[rest], b[rest])


def test_png_and_gif_are_saved(signed_in_tab, tmp_path):
    page = open_explorer(signed_in_tab, "vae")
    for button, kind in (("Save PNG", "PNG"), ("Save GIF", "GIF")):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=button).click()
        waiting.value.save_as(tmp_path / kind)
        with Image.open(tmp_path / kind) as saved:
            assert saved.format == kind
            assert kind == "PNG" or saved.n_frames > 8


def test_good_huge_and_hostile_files(signed_in_tab, tmp_path):
    page = open_explorer(signed_in_tab, "vae")
    told = page.locator("#told")
    Image.new("RGB", (40, 60), (250, 240, 10)).save(tmp_path / "good.png")
    (tmp_path / "hostile.png").write_text("<svg onload=alert(1)><script>alert(1)</script>")
    (tmp_path / "huge.png").write_bytes(b"\x89PNG" + b"\0" * (9 << 20))
    before = canvas_pixels(page, "input")
    page.set_input_files("#file", tmp_path / "good.png")
    page.wait_for_function("document.getElementById('told').textContent === 'good.png'")
    assert not np.array_equal(canvas_pixels(page, "input"), before)
    page.set_input_files("#file", tmp_path / "hostile.png")
    page.wait_for_selector("#told.wrong")
    assert "cannot read" in told.text_content()
    page.set_input_files("#file", tmp_path / "huge.png")
    page.wait_for_function("document.getElementById('told').textContent.includes('too large')")
    # and without the check of the page
    answer = page.evaluate("""async () => {
      const reply = await fetch("/studio/drop?run=vae", {method: "POST", body: new Uint8Array(9 << 20)});
      return unpacked(await reply.arrayBuffer()).head.error;
    }""")
    assert "too large" in answer


def test_a_cell_of_the_wall_leads_to_its_code(signed_in_tab):
    page = signed_in_tab
    page.go("/wall?run=hfvae_discrete")
    page.wait_for_selector("#walls[data-ready=yes]")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    row = page.locator(".wallrow").first
    row.get_by_role("button").nth(2).click()
    page.wait_for_selector("#explorer[data-ready=yes]")
    kept = json.loads(page.evaluate("sessionStorage.getItem('unbraid-code')"))
    assert np.allclose(page.evaluate("Array.from(code)"), kept, atol=1e-4)


def test_the_table_shows_every_run_and_what_is_wrong(signed_in_tab):
    page = signed_in_tab
    page.locator(".ag-row").first.wait_for()
    shown = page.locator(".ag-center-cols-container").text_content()
    assert "damaged" in shown
    assert "not valid TOML" in page.locator(".ag-root").text_content()
    page.go("/explore?run=broken")
    page.wait_for_selector("#told.wrong")


def test_a_click_on_the_trade_off_opens_the_run(signed_in_tab):
    page = signed_in_tab
    page.locator(".js-plotly-plot .scatterlayer .point").first.wait_for()
    point = page.locator(".js-plotly-plot .scatterlayer .point").first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(400)
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url("**/explore?run=*")
    assert page.url.split("run=")[1]


def test_diagnostics_draw_everything(signed_in_tab):
    signed_in_tab.go("/diagnostics?run=vae")
    signed_in_tab.get_by_text("Audit now").wait_for()
    signed_in_tab.wait_for_function("document.querySelectorAll('.gtitle').length >= 7")
    titles = " ".join(signed_in_tab.locator(".gtitle").all_text_contents())
    for wanted in (
        "loss",
        "Information of each leaf",
        "KL(q(z|x)",
        "I(leaf; factor)",
        "leaf × leaf",
        "against the prior",
        "contours",
    ):
        assert wanted in titles, titles


@pytest.mark.parametrize("run", ["../secret.txt", "/etc", "..%2f..", "%2e%2e/", "vae/../../secret.txt", "nothing"])
def test_runs_outside_are_refused_in_the_page(signed_in_tab, run):
    signed_in_tab.go(f"/explore?run={run}")
    signed_in_tab.get_by_role("alert").wait_for()
    assert "nobody reads this" not in signed_in_tab.content()


@pytest.mark.parametrize(
    "path",
    ["/studio/file/..%2f..%2fpyproject.toml", "/studio/file/%2e%2e/auth.py", "/studio/file/auth.py", "/secret.txt",
     "/_nicegui/../../secret.txt", "/studio/share?run=../secret.txt"],
)  # fmt: skip
def test_no_address_reads_a_file(signed_in_tab, studio, path):
    found = signed_in_tab.context.request.get(studio["at"] + path)
    assert found.status in (400, 404)
    assert "nobody reads this" not in found.text()


def request_status(address: str, **headers: str):
    """Status of a plain request."""
    try:
        return urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code


def test_requests_without_token_host_or_origin_are_refused(studio):
    port = studio["at"].rsplit(":", 1)[1]
    token = studio["open"].split("token=")[1]
    cookie = f"unbraid_{port}={token}"
    for path in ("/", "/explore?run=vae", "/studio/share?run=vae", "/_nicegui_ws/socket.io/?EIO=4&transport=polling"):
        assert request_status(studio["at"] + path) == 403
        assert request_status(studio["at"] + path, Cookie=cookie, Host=f"evil.example:{port}") == 421
        assert request_status(studio["at"] + path, Cookie=cookie, Origin="https://evil.example") == 403
    assert request_status(studio["at"] + "/", Cookie=cookie) == 200


def test_another_site_opens_no_websocket(chromium, studio):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(studio["open"])
    page.wait_for_url(studio["at"] + "/")
    page.route("http://evil.example/", lambda route: route.fulfill(body="<p>elsewhere</p>", content_type="text/html"))
    page.goto("http://evil.example/")
    for way in ("/studio/live", "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"):
        script = f"""() => new Promise(done => {{
          const s = new WebSocket("{studio["at"].replace("http", "ws")}{way}");
          s.onopen = () => done("open"); s.onerror = () => done("refused");
        }})"""
        assert page.evaluate(script) == "refused"
    context.close()


def test_only_this_machine_can_connect(studio):
    port = int(studio["at"].rsplit(":", 1)[1])
    lines = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    fields = [line.split() for part in lines for line in part]
    places = {f[1].split(":")[0] for f in fields if f[1].endswith(f":{port:04X}") and f[3] == "0A"}
    assert places == {"0100007F"}, "bound to 127.0.0.1 and nothing else"


def test_a_training_is_started_watched_stopped_and_resumed(signed_in_tab, studio):
    page = signed_in_tab
    page.go("/train")
    page.get_by_role("button", name="Start training").wait_for()
    fill = lambda label, value: page.get_by_label(label, exact=True).fill(value)  # noqa: E731
    fill("budget.steps", "-5")
    page.get_by_role("button", name="Start training").click()
    page.get_by_text("1 field to correct").wait_for()
    assert page.locator(".q-field--error").count() == 1
    fill("budget.steps", "1000000")
    page.get_by_text("Advanced:").click()
    fill("budget.log_every", "5")
    fill("Name of the run", "mine")
    page.get_by_role("button", name="Start training").click()
    row = page.locator("[data-training=mine]")
    row.get_by_role("button", name="Stop").wait_for()
    library = Library(studio["root"])
    begun = train_processes.find_training(library, "mine")
    try:
        end = time.monotonic() + 150
        while "step" not in _ledger_text(studio) and time.monotonic() < end:
            time.sleep(0.5)
        # ten tabs are open, and each stays responsive
        tabs = [page.context.new_page() for _ in range(10)]
        for one in tabs:
            one.set_default_timeout(90_000)
            one.goto(studio["at"] + "/explore?run=vae")
        for one in tabs:
            one.wait_for_selector("#explorer[data-ready=yes]")
        for one in tabs:
            one.evaluate("document.getElementById('folded').open = true")
            count = frame_count(one)
            one.locator(".leaf input[type=range]").first.focus()
            one.keyboard.press("ArrowRight")
            one.wait_for_function(f"Number(document.getElementById('image').dataset.frames) > {count}", timeout=5000)
            one.close()
        row.get_by_role("button", name="Stop").click()
        row.get_by_role("button", name="Resume").wait_for()
        assert json.loads((studio["root"] / "mine" / "run.json").read_text())["status"] == "stopped"
        row.get_by_role("button", name="Resume").click()
        row.get_by_role("button", name="Stop").wait_for()
        begun = train_processes.find_training(library, "mine")
        assert begun.alive
    finally:
        train_processes.stop_training(begun)
        end = time.monotonic() + 60
        while begun.alive and time.monotonic() < end:
            time.sleep(0.2)
        assert not begun.alive
        shutil.rmtree(studio["root"] / "mine")  # other tests count the runs of this studio


def _ledger_text(studio) -> str:
    path = studio["root"] / "mine" / "ledger.jsonl"
    return path.read_text() if path.exists() else ""


def test_share_gives_a_page_that_works_alone(signed_in_tab, tmp_path):
    page = open_explorer(signed_in_tab, "vae")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Share as one file").click()
    waiting.value.save_as(tmp_path / "explore.html")
    assert "default-src 'none'" in (tmp_path / "explore.html").read_text()


@pytest.mark.parametrize("path", ["/", "/explore?run=vae", "/wall?run=vae", "/diagnostics?run=vae", "/train"])
def test_every_control_has_a_name_and_is_reached_by_keys(signed_in_tab, path):
    page = signed_in_tab
    page.go(path)
    page.wait_for_timeout(4000)
    nameless = page.evaluate("""() => Array.from(document.querySelectorAll("button, input, select, canvas[role], a"))
      .filter(n => n.offsetParent && !n.closest(".ag-root-wrapper, .modebar"))
      .filter(n => !(n.textContent.trim() || n.getAttribute("aria-label") || n.title || n.closest("label") || n.labels?.length))
      .map(n => n.outerHTML.slice(0, 200))""")
    assert not nameless
    seen = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.outerHTML.slice(0, 120)"))
    assert len(seen) >= 5


@pytest.mark.parametrize("path", ["/", "/explore?run=vae", "/wall?run=vae", "/diagnostics?run=vae", "/train"])
def test_pages_fit_a_phone(signed_in_tab, path):
    signed_in_tab.set_viewport_size({"width": 390, "height": 844})
    signed_in_tab.go(path)
    signed_in_tab.wait_for_timeout(3000)
    assert signed_in_tab.evaluate("document.documentElement.scrollWidth") <= 390
