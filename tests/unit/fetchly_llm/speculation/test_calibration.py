import pytest

from fetchly_llm.speculation.calibration import Calibration
from fetchly_llm.speculation.source import Candidate

SURE, HALF = Candidate(5, 1.0, 3), Candidate(6, 0.5, 3)


def taught(right: int, wrong: int, candidate: Candidate = SURE) -> Calibration:
    calibration = Calibration()
    for number in range(right + wrong):
        calibration.learn("copy", candidate, number < right)
        calibration.end_step()
    return calibration


def test_before_anything_is_learnt_the_source_is_believed_but_never_quite() -> None:
    assert Calibration().probability("copy", HALF) == 0.5
    assert Calibration().probability("copy", SURE) == 0.999


def test_a_source_that_is_always_wrong_sinks_towards_zero() -> None:
    chances = [taught(0, wrong).probability("copy", SURE) for wrong in (1, 4, 16, 64, 256)]
    assert chances == sorted(chances, reverse=True)
    assert 0.0 < chances[-1] < 0.05
    assert chances[0] > 0.7


def test_a_source_that_is_right_more_often_than_it_says_rises_and_stays_below_one() -> None:
    assert taught(30, 0, HALF).probability("copy", HALF) > 0.8
    assert taught(3000, 0, HALF).probability("copy", HALF) <= 0.999


def test_a_source_that_is_right_as_often_as_it_says_is_left_alone() -> None:
    calibration = Calibration()
    for number in range(400):
        calibration.learn("copy", HALF, number % 2 == 0)
        calibration.end_step()
    assert calibration.probability("copy", HALF) == pytest.approx(0.5, abs=0.02)


def test_what_is_learnt_holds_for_the_source_and_grade_alone() -> None:
    calibration = taught(0, 50)
    assert calibration.probability("copy", Candidate(5, 1.0, grade=4)) == 0.999
    assert calibration.probability("streams", SURE) == 0.999
    assert calibration.probability("copy", Candidate(99, 0.5, grade=3)) < 0.1


def test_what_was_learnt_is_forgotten_by_and_by_so_that_it_is_tried_again() -> None:
    calibration = taught(0, 60)
    sunk = calibration.probability("copy", SURE)
    for _ in range(700):
        calibration.end_step()
    risen = calibration.probability("copy", SURE)
    assert sunk < 0.1 < risen < 0.9
    for _ in range(5000):
        calibration.end_step()
    assert calibration.probability("copy", SURE) > 0.99


def test_forgetting_goes_by_steps_and_not_by_what_is_learnt_in_them() -> None:
    together, apart = Calibration(), Calibration()
    for _ in range(3):
        together.learn("copy", SURE, False)
    for _ in range(200):
        together.end_step()
    for _ in range(3):
        apart.learn("copy", SURE, False)
        apart.learn("streams", SURE, True)
    for _ in range(200):
        apart.learn("streams", SURE, True)
        apart.end_step()
    assert together.probability("copy", SURE) == apart.probability("copy", SURE)
    # Learning anew after a while does not bring back what was forgotten.
    together.learn("copy", SURE, False)
    assert together.probability("copy", SURE) == pytest.approx(4.0 / (4.0 + 3.0 * 0.998**200 + 1.0))
