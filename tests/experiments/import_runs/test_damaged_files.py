"""A file that is cut off: it is named, with what is wrong in it, be it the first one of a folder or alone."""

from __future__ import annotations

import json

import pytest

from whichloop.experiments.import_runs import ImportRequest, import_files

TRAJECTORY = {
    "schema_version": "ATIF-v1.6",
    "agent": {"name": "careful", "version": "1.0"},
    "steps": [{"step_id": 1, "source": "user", "message": "How many?"}, {"step_id": 2, "source": "agent", "message": "12"}],
}


@pytest.mark.parametrize("cut", range(3))
def test_a_file_that_is_cut_off_is_named_wherever_it_stands(tmp_path, cut):
    folder = tmp_path / "trajectories"
    folder.mkdir()
    for number in range(3):
        text = json.dumps(TRAJECTORY)
        (folder / f"trial-{number}.json").write_text(text[:40] if number == cut else text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"trajectories: trial-{cut}.json: Expecting value") as caught:
        import_files([folder], ImportRequest(), tmp_path / "run")
    assert "no format recognizes" not in str(caught.value)


@pytest.mark.parametrize("document", [TRAJECTORY | {"steps": [1]}, [{"task": "x"}, {"step_number": "x", "tool_calls": 7}]])
def test_what_is_wrong_in_a_single_file_names_it_once(kit, tmp_path, document):
    path = kit.put(document)
    with pytest.raises(ValueError, match="^" + str(path)) as caught:
        import_files([path], ImportRequest(), tmp_path / "run")
    assert str(caught.value).count(path.name) == 1
