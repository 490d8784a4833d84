"""Diagnostics, Runs and Train in a real browser: every control, and pages that are left while they load."""

from __future__ import annotations

import json

import pytest
from PIL import Image

pytestmark = pytest.mark.slow


def test_curves_of_several_runs_with_log_scale_and_smoothing(signed_in_tab):
    page = signed_in_tab
    page.go("/diagnostics?run=vae&run=conv")
    page.locator(".panels .js-plotly-plot").first.wait_for()
    assert page.locator(".legend span").all_text_contents() == ["vae", "conv"]
    axis = "document.querySelector('.panels .js-plotly-plot')._fullLayout.yaxis"
    page.wait_for_function(f"{axis}.type === 'linear' && {axis}.autorange === false")
    page.get_by_role("switch", name="Log scale").click()
    page.wait_for_function(f"{axis}.type === 'log'")
    page.get_by_role("switch", name="Ignore the first steps").click()
    page.wait_for_function(f"{axis}.autorange === true")
    traces = "document.querySelector('.panels .js-plotly-plot').data.length"
    assert page.evaluate(traces) == 2
    slider = page.get_by_role("slider", name="Smoothing")
    slider.click(position={"x": slider.bounding_box()["width"] * 0.8, "y": slider.bounding_box()["height"] / 2})
    page.wait_for_function(f"{traces} === 4")


def test_the_numbers_of_heat_maps_are_light_in_the_dark(signed_in_tab):
    signed_in_tab.emulate_media(color_scheme="dark")
    signed_in_tab.go("/diagnostics?run=vae")
    signed_in_tab.locator(".heatmap-label text").first.wait_for()
    fill = signed_in_tab.evaluate("getComputedStyle(document.querySelector('.heatmap-label text')).fill")
    assert fill == "rgb(230, 233, 239)"


def test_a_run_is_added_to_the_curves(signed_in_tab):
    page = signed_in_tab
    page.go("/diagnostics?run=vae")
    page.locator(".panels .js-plotly-plot").first.wait_for()
    page.get_by_label("Compare with").click()
    page.get_by_role("option", name="full_posterior").click()
    page.wait_for_function("document.querySelectorAll('.legend span').length === 2")


def test_curves_follow_a_run_while_it_trains(signed_in_tab, studio):
    page, path = signed_in_tab, studio["root"] / "full_posterior" / "ledger.jsonl"
    text = path.read_text()
    page.go("/diagnostics?run=full_posterior")
    page.locator(".panels .js-plotly-plot").first.wait_for()
    try:
        path.write_text(text + json.dumps(json.loads(text.splitlines()[-1]) | {"step": 123456}) + "\n")
        page.wait_for_function("document.querySelector('.panels .js-plotly-plot').data[0].x.at(-1) === 123456")
    finally:
        path.write_text(text)


def test_columns_are_chosen_and_the_best_is_marked(signed_in_tab):
    page = signed_in_tab
    page.locator(".ag-row").first.wait_for()
    shown = page.locator(".ag-header-cell[col-id=objective]")
    assert shown.count() == 1
    page.get_by_label("Columns").click()
    page.get_by_role("option", name="objective", exact=True).click()
    page.wait_for_function("!document.querySelector('.ag-header-cell[col-id=objective]')")
    names = page.locator(".ag-cell[col-id=name]").all_text_contents()
    assert {"vae", "hfvae_discrete", "full_posterior"} <= set(names), "names are shown in full"


def test_rows_are_filtered_by_a_recipe_field_and_sorted(signed_in_tab):
    page = signed_in_tab
    page.locator(".ag-row").first.wait_for()
    page.get_by_label("Filter by recipe field").click()
    page.get_by_role("option", name="objective.name").click()
    page.get_by_label("Values").click()
    page.get_by_role("option", name="hfvae").first.click()
    page.get_by_text("1 of 5 runs").wait_for()
    page.wait_for_function("document.querySelectorAll('.ag-pinned-left-cols-container .ag-row').length === 1")
    page.wait_for_function(
        "document.querySelectorAll('.scatterlayer .point').length === 1"
    )  # the plot has the same runs
    page.go("/")
    page.locator(".ag-row").first.wait_for()
    first = "document.querySelector('.ag-pinned-left-cols-container .ag-row[row-index=\"0\"]').textContent"
    page.locator(".ag-header-cell[col-id=name] .ag-header-cell-label").click()
    page.wait_for_function(f"{first}.includes('broken')")
    page.locator(".ag-header-cell[col-id=name] .ag-header-cell-label").click()
    page.wait_for_function(f"{first}.includes('vae')")


def test_names_do_not_cover_the_numbers_on_a_phone(signed_in_tab):
    page = signed_in_tab
    page.set_viewport_size({"width": 390, "height": 844})
    page.go("/")
    page.locator(".ag-row").first.wait_for()
    page.wait_for_function("!document.querySelector('.ag-pinned-left-cols-container .ag-cell[col-id=name]')")
    assert page.locator(".ag-cell[col-id=name]").first.bounding_box()["width"] < 200


def test_a_long_value_is_shown_whole(signed_in_tab):
    page = signed_in_tab
    page.set_viewport_size({"width": 1440, "height": 900})
    page.go("/train")
    page.get_by_label("Recipe").click()
    page.get_by_role("option", name="vae_colour_sprites", exact=True).click()
    page.wait_for_function(
        "[...document.querySelectorAll('.form .long input')].some(i => i.value.includes('schedule'))"
    )
    cut = "[...document.querySelectorAll('.form .long input')].filter(i => i.scrollWidth > i.clientWidth + 1).length"
    assert page.evaluate(cut) == 0


def test_selected_runs_open_their_curves(signed_in_tab):
    page = signed_in_tab
    page.locator(".ag-row").first.wait_for()
    for box in page.locator(".ag-row .ag-selection-checkbox input").all()[:2]:
        box.check()
    page.get_by_role("button", name="Curves of selected runs").click()
    page.wait_for_url("**/diagnostics?run=*&run=*")


def test_the_form_explains_its_fields_and_checks_while_typing(signed_in_tab):
    page = signed_in_tab
    page.go("/train")
    page.get_by_text("The number of training steps.").wait_for()
    page.get_by_label("budget.steps", exact=True).fill("-5")
    page.locator(".q-field--error").wait_for()
    assert "greater than or equal to 1" in page.locator(".q-field--error").text_content()
    page.get_by_label("budget.steps", exact=True).fill("20")
    page.wait_for_function("!document.querySelector('.q-field--error')")
    assert not page.get_by_label("budget.amsgrad").is_visible()
    page.get_by_text("Advanced:").click()
    page.get_by_role("switch", name="budget.amsgrad").click()
    page.get_by_label("objective.name").click()
    page.get_by_role("option", name="beta_vae", exact=True).click()
    page.get_by_label("objective.beta", exact=True).wait_for()
    assert page.get_by_label("budget.steps", exact=True).input_value() == "20", "what was typed is kept"


def test_own_pictures_and_an_estimate_of_the_time(signed_in_tab, tmp_path):
    for i in range(80):
        Image.new("RGB", (16, 16), (3 * i, 40, 90)).save(tmp_path / f"{i}.png")
    page = signed_in_tab
    page.go("/train")
    page.get_by_role("button", name="Use my own pictures").click()
    path = page.get_by_label("data.path", exact=True)
    path.fill(str(tmp_path / "nothing"))
    page.get_by_text("no such folder").wait_for()
    path.fill(str(tmp_path))
    page.wait_for_function("!document.querySelector('.q-field--error')")
    page.get_by_label("data.size", exact=True).fill("16")
    page.get_by_label("budget.batch", exact=True).fill("8")
    page.get_by_label("budget.steps", exact=True).fill("40")
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Estimate the time").click()
    estimate = page.get_by_text("on this machine")
    estimate.wait_for()
    before = estimate.text_content()
    page.get_by_label("budget.steps", exact=True).fill("4000000")
    page.wait_for_function("text => !document.body.innerText.includes(text)", arg=before)
    estimate.wait_for()


def test_leaving_pages_while_they_load_prints_nothing(signed_in_tab, studio):
    page = signed_in_tab
    before = len(studio["log"].read_text())
    for pause in (0, 200, 600):
        for path in ("/", "/diagnostics?run=vae", "/explore?run=conv", "/wall?run=conv", "/train"):
            page.goto(studio["at"] + path, wait_until="commit")
            page.wait_for_timeout(pause)
    page.goto("about:blank")
    page.context.request.get(studio["at"] + "/diagnostics?run=vae")  # a page that never connects
    page.wait_for_timeout(8000)
    page.wrong.clear()  # what the browser says about scripts that it stopped
    assert studio["log"].read_text()[before:] == ""
