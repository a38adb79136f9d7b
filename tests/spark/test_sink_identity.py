from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from trio_stomp.spark.sink_identity import ContentIds, DedupIds, new_id_maker

BODIES = st.lists(st.binary(max_size=3), max_size=30)


def ids_of(bodies: Iterable[bytes]) -> list[str]:
    maker = ContentIds("q.1.0")
    return [maker.next_id("/queue/a", body, None, ()) for body in bodies]


@given(bodies=BODIES, data=st.data())
def test_content_ids_when_rows_come_in_another_order_then_the_same_ids(
    bodies: list[bytes], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(bodies))

    assert sorted(ids_of(bodies)) == sorted(ids_of(other))


@given(bodies=BODIES)
def test_content_ids_when_rows_are_equal_then_each_has_its_own(bodies: list[bytes]) -> None:
    ids = ids_of(bodies)

    assert len(set(ids)) == len(bodies)


def test_content_ids_when_anything_of_a_message_differs_then_they_differ() -> None:
    maker = ContentIds("q.1.0")
    ids = [
        maker.next_id("/queue/a", b"x", None, ()),
        maker.next_id("/queue/b", b"x", None, ()),
        maker.next_id("/queue/a", b"y", None, ()),
        maker.next_id("/queue/a", b"x", "text/plain", ()),
        maker.next_id("/queue/a", b"x", None, [("a", "b")]),
        maker.next_id("/queue/a", b"x", None, [("a", "c")]),
        ContentIds("q.2.0").next_id("/queue/a", b"x", None, ()),
    ]

    assert len(set(ids)) == len(ids)


def test_content_ids_when_a_map_is_in_another_order_then_the_same_id() -> None:
    one, other = ContentIds("q"), ContentIds("q")

    assert one.next_id("d", b"x", None, [("a", "1"), ("b", "2")]) == other.next_id(
        "d", b"x", None, [("b", "2"), ("a", "1")]
    )


def test_ids_when_looked_at_then_they_need_no_escapes() -> None:
    (made,) = ids_of([b":\n\\"])

    assert made.startswith("q.1.0.")
    assert made.replace(".", "").isalnum()


def test_ordinal_ids_when_rows_follow_then_numbers_follow() -> None:
    maker = new_id_maker(DedupIds.ORDINAL, "q.1.0")

    assert maker is not None
    assert [maker.next_id("d", b"", None, ()) for _ in range(3)] == ["q.1.0.0", "q.1.0.1", "q.1.0.2"]
