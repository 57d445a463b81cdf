"""When pages of a site are rendered without being judged first, and how it is unlearned."""

from fetchly.crawler.render_choice import JUDGE_EVERY, ORIGIN_AFTER, PART_AFTER, RenderChoice

HOST = "https://a.example"


def taught(*lessons: tuple[str, bool], times: int = 1) -> RenderChoice:
    choice = RenderChoice()
    for path, needed in lessons:
        for _ in range(times):
            choice.learn(HOST + path, needed)
    return choice


def test_a_few_pages_in_a_row_decide_for_their_part_of_the_site() -> None:
    choice = RenderChoice()
    for number in range(PART_AFTER):
        assert not choice.skips_judging(f"{HOST}/app/{number}")
        choice.learn(f"{HOST}/app/{number}", True)
    assert choice.skips_judging(f"{HOST}/app/x/y?z")
    assert not choice.skips_judging(f"{HOST}/blog/1")
    assert not choice.skips_judging(f"{HOST}/app")
    assert not choice.skips_judging("https://b.example/app/1")
    assert not choice.skips_judging("http://a.example/app/1")


def test_many_small_parts_decide_for_their_origin() -> None:
    choice = taught(*((f"/user{number}/page", True) for number in range(ORIGIN_AFTER - 1)))
    assert not choice.skips_judging(f"{HOST}/user99/page")
    choice.learn(f"{HOST}/user98/page", True)
    assert choice.skips_judging(f"{HOST}/user99/page")
    assert choice.skips_judging(f"{HOST}/user98/other")  # one lesson of its own says nothing against it


def test_a_part_that_has_shown_to_be_otherwise_is_judged() -> None:
    choice = taught(("/blog/1", False), *((f"/user{number}/page", True) for number in range(ORIGIN_AFTER)))
    assert not choice.skips_judging(f"{HOST}/blog/2")
    assert choice.skips_judging(f"{HOST}/user99/page")


def test_one_page_that_needs_nothing_takes_all_back() -> None:
    choice = taught(("/app/1", True), times=50)
    assert choice.skips_judging(f"{HOST}/app/1")
    choice.learn(f"{HOST}/app/2", False)
    assert not choice.skips_judging(f"{HOST}/app/1")
    for _ in range(PART_AFTER):
        choice.learn(f"{HOST}/app/1", True)
    assert choice.skips_judging(f"{HOST}/app/1")


def test_now_and_then_a_page_is_judged_all_the_same() -> None:
    choice = taught(("/app/1", True), times=PART_AFTER)
    asked = [choice.skips_judging(f"{HOST}/app/{number}") for number in range(3 * JUDGE_EVERY)]
    assert [number for number, skips in enumerate(asked, 1) if not skips] == [
        JUDGE_EVERY,
        2 * JUDGE_EVERY,
        3 * JUDGE_EVERY,
    ]


def test_what_it_holds_goes_on_elsewhere_by_its_changes() -> None:
    choice, kept = RenderChoice(), {}
    for number in range(40):
        choice.learn(f"{HOST}/app/{number}", True)
        changes = choice.take_changes()
        assert bool(changes) == (number < ORIGIN_AFTER)  # a site that stays as it is costs no writing
        kept.update(changes)
    choice.learn(f"{HOST}/", False)
    kept.update(choice.take_changes())
    assert kept == choice.memory
    other = RenderChoice()
    other.restore(kept)
    assert other.skips_judging(f"{HOST}/app/1")
    assert not other.skips_judging(f"{HOST}/")


def test_it_is_bounded() -> None:
    choice = RenderChoice({f"https://{number}.example/": 1 for number in range(20_000)})
    choice.learn(f"{HOST}/app/1", True)
    assert len(choice.memory) == 10_000
    assert choice.memory[f"{HOST}/app/"] == 1
