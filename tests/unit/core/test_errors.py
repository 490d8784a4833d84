"""Errors state the requirement, the value found, the values allowed and what to do."""

import pytest

from unbraid.core.errors import UnbraidError, choose, expect


def test_four_parts_in_order():
    with pytest.raises(UnbraidError, match=r"^batch must fit: found 9; allowed: 1, 2\. Lower it\.$"):
        expect(False, "batch must fit", found=9, allowed=[1, 2], do="Lower it.")


def test_choose_names_the_nearest():
    with pytest.raises(UnbraidError, match="Did you mean 'hfvae'"):
        choose("hfvea", {"hfvae": 1, "vae": 2}, "objective")


def test_choose_takes_only_strings():
    with pytest.raises(UnbraidError, match="unknown objective 3"):
        choose(3, {"vae": 1}, "objective")
