"""How likely a draft is right: kept beside the model, refused where it is something else."""

from pathlib import Path

import pytest

from planner_svc.backends.compact.confidence import CALIBRATION, SIGNS, Calibration, CalibrationError

WEIGHTS = tuple(0.1 * number for number in range(len(SIGNS)))


def test_it_is_kept_beside_the_model(tmp_path: Path) -> None:
    Calibration(WEIGHTS, -1.0).save(tmp_path)
    assert Calibration.load(tmp_path) == Calibration(WEIGHTS, -1.0)


def test_it_says_probabilities() -> None:
    sure = Calibration((1.0,) * len(SIGNS), 0.0)
    assert sure.probability((0.0,) * len(SIGNS)) == 0.5
    assert 0 < sure.probability((-1e9,) * len(SIGNS)) < 1e-9
    assert 1 - 1e-9 < sure.probability((1e9,) * len(SIGNS)) <= 1


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"weights": {}, "bias": 1}', b'{"weights": 3, "bias": "x"}'])
def test_another_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CALIBRATION).write_bytes(content)
    with pytest.raises(CalibrationError, match=CALIBRATION):
        Calibration.load(tmp_path)
