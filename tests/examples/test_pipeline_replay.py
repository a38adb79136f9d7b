"""The two ends at the broker: the replay, and the desk that takes the alerts; and the proxy between."""

from pathlib import Path
from urllib.parse import urlsplit

import trio
from flights.records import Flight
from pipeline.alerts import AlertDesk
from pipeline.faulty_proxy import open_faulty_proxy
from pipeline.replay import Replay, flights_in_order
from pipeline.settings import SENTINEL_ID

from trio_stomp.testing import open_broker

QUEUE = "/queue/flights"


def flights(count: int) -> list[Flight]:
    return [
        Flight(id=n, carrier="UA", number=n, origin="EWR", destination="IAH", hour="2013-01-01T10:00:00Z", delay=n)
        for n in range(1, count + 1)
    ]


def test_flights_when_put_in_order_then_by_hour_and_not_by_the_text_of_the_month(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv"
    hours = ("2013-10-01T10:00:00Z", "2013-02-01T10:00:00Z", "2013-02-01T09:00:00Z")
    rows = "".join(f"UA,1,EWR,IAH,{hour},1\n" for hour in hours)
    path.write_text("carrier,flight,origin,dest,time_hour,dep_delay\n" + rows, "utf-8")

    assert [flight.id for flight in flights_in_order(path, None)] == [3, 2, 1]


async def test_replay_when_the_link_is_cut_on_the_way_then_every_flight_is_there() -> None:
    from flights_pipeline import left_over, through  # noqa: PLC0415  # it imports matplotlib, which takes long

    async with open_broker() as broker, open_faulty_proxy("127.0.0.1", broker.port) as proxy:
        replay = Replay(url=through(broker.url, proxy.port), queue=QUEUE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: replay.run(flights(3000), per_second=1e9))
            await broker.wait_until(lambda: broker.depth(QUEUE) > 500, timeout=60)
            assert proxy.cut_all() == 1
        await replay.close_windows()

        ids = [message.headers.get("flight_id") for message in broker.messages(QUEUE)]
        assert {each for each in ids if each is not None} == {str(n) for n in range(1, 3001)}
        assert f'"id": {SENTINEL_ID}'.encode() in broker.messages(QUEUE)[-1].body
        assert (replay.confirmed, proxy.cuts) == (3000, 1)
        assert await left_over(broker.url, QUEUE) == len(ids)


async def test_desk_when_messages_come_again_then_they_are_known_by_their_ids() -> None:
    async with open_broker() as broker:
        desk = AlertDesk(url=broker.url, queue=QUEUE)
        for number, own in ((1, "a"), (2, "b"), (1, "a"), (2, "other")):
            body = f'{{"id": {number}, "carrier": "UA", "delay": 90}}'
            broker.publish(QUEUE, body, [("dedup-id", own)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.run)
            await broker.wait_until(lambda: broker.depth(QUEUE) + broker.unacknowledged(QUEUE) == 0, timeout=60)
            nursery.cancel_scope.cancel()

    assert (desk.arrivals.ids, desk.arrivals.doubled, desk.copies) == ({1, 2}, [2], 1)


def test_url_when_it_goes_through_the_proxy_then_all_but_the_address_is_the_same() -> None:
    from flights_pipeline import through  # noqa: PLC0415  # as above

    assert through("stomp://guest:s%3Ax@broker:61613/test", 5) == "stomp://guest:s%3Ax@127.0.0.1:5/test"
    assert urlsplit(through("stomp://broker", 5)).port == 5
