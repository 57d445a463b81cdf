from fetchly_llm.speculation.rest import Rests


def awake(rests: Rests, steps: int, helping: frozenset[int] = frozenset()) -> list[int]:
    """The steps in which a source was asked; it helps in those of `helping` in which it is."""
    asked = []
    for step in range(steps):
        is_asked = rests.is_awake("copy")
        if is_asked:
            asked.append(step)
        rests.end_step(["copy"], {"copy": 1} if is_asked and step in helping else {})
    return asked


def test_a_source_that_never_helps_is_asked_a_dozen_times_and_then_ever_more_seldom() -> None:
    expected = [*range(12), 24, 25, 50, 51, 100, 101, 198, 199, 392, 393, 586, 587]
    assert awake(Rests(), 600) == expected


def test_a_source_that_helps_within_every_dozen_steps_never_rests() -> None:
    assert awake(Rests(), 300, frozenset(range(0, 300, 12))) == list(range(300))


def test_help_in_one_of_the_two_steps_after_a_rest_wakes_a_source_for_good() -> None:
    assert awake(Rests(), 40, frozenset([25])) == [*range(12), 24, 25, *range(26, 38)]


def test_sources_rest_on_their_own() -> None:
    rests = Rests()
    for _ in range(12):
        rests.end_step(["copy", "streams"], {"streams": 2})
    assert not rests.is_awake("copy")
    assert rests.is_awake("streams")
    assert rests.is_awake("never heard of")


def test_who_wakes_in_the_next_step_is_known_before() -> None:
    rests = Rests()
    for step in range(60):
        will_be = rests.is_awake("copy", after=1)
        was = rests.is_awake("copy")
        rests.end_step(["copy"], {})
        if not was:  # one that is awake may be sent to rest by the step itself
            assert rests.is_awake("copy") == will_be, step


def asked_at(cost: float, tokens: int, every: int, steps: int = 40) -> list[int]:
    """The steps in which streams were asked, at `cost` plain steps each; every so many times they gain `tokens`."""
    rests, asked = Rests(), []
    for step in range(steps):
        gained = 0
        if rests.is_awake("streams"):
            asked.append(step)
            rests.charge("streams", cost)
            gained = tokens if len(asked) % every == 0 else 0
        rests.end_step(["streams"], {"streams": gained})
    return asked


def test_a_source_that_costs_passes_has_to_pay_for_them() -> None:
    assert asked_at(cost=0.5, tokens=1, every=2) == list(range(40))
    assert asked_at(cost=0.5, tokens=3, every=6) == list(range(40))
    assert len(asked_at(cost=0.6, tokens=1, every=2)) < 20
    assert len(asked_at(cost=0.5, tokens=2, every=6)) < 20


def test_what_is_owed_is_forgotten_by_the_end_of_a_rest() -> None:
    rests = Rests()
    rests.charge("streams", 50.0)
    for step in range(24):
        assert rests.is_awake("streams") == (step < 12)
        rests.end_step(["streams"], {})
    for _ in range(13):
        rests.charge("streams", 0.5)
        rests.end_step(["streams"], {"streams": 1})
    assert rests.is_awake("streams")
