"""The session: what outlives a single connection.

Theory of operation. A client has one session for its whole life. Its connections follow each other; without
``reconnect=`` the first is the only one. The session keeps what must survive a loss: subscriptions, unconfirmed
messages, counters and state. It is in one `SessionState` at a time, and only the steps in the table `SESSION_STEPS`
lead from one to the next.

Verbs call `turn` for the connection to send on, and wait while there is none. In the state CONNECTED there is one, and
in no other; once the program leaves, there is none for new work. A connection that ends calls `connection_ended`, which
returns whether another one follows. If so, subscriptions wait instead of failing, and unconfirmed messages stay in the
book. Tasks in `reconnecting` dial, and restore everything on the new connection before any verb may use it.

An ERROR may end a connection without a receipt-id (RabbitMQ's never have one), so it is unknown which frame caused it.
Sent again, that frame would end every later connection too. So the session keeps the ERROR as `unexplained`. On the
next connection, subscriptions and unconfirmed messages are then sent one at a time, and if another ERROR comes, the one
that was sent last is refused. For a broker that says nothing before it closes, see `suspicion`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

import anyio

from trio_stomp.brokers import is_link_trouble
from trio_stomp.errors import BrokerError, ConnectionClosed, StompError
from trio_stomp.runtime import OTHER_LOOP, current_time, move_on_at, new_wait_queue
from trio_stomp.session.budget import Turns
from trio_stomp.session.connection import CLOSED, Connection
from trio_stomp.session.failures import renewed, was_raised
from trio_stomp.session.receipts import Receipts
from trio_stomp.session.reconnect import Outage, Refusals
from trio_stomp.session.requeue_after_unsubscribe import unsubscribing_at
from trio_stomp.session.state import (
    PHASES,
    ConnectionState,
    DisconnectResult,
    Phase,
    SessionState,
    StateLog,
    Step,
    after,
)
from trio_stomp.session.statistics import Counters
from trio_stomp.session.suspicion import Suspicion

if TYPE_CHECKING:
    from trio_stomp.protocol import ClientProtocol
    from trio_stomp.session.dialing import Link
    from trio_stomp.session.settings import Settings
    from trio_stomp.session.subscription_state import Registration

__all__ = ["Session"]

logger: Final = logging.getLogger("trio_stomp")

# The connection is being left for another host.
_LEFT: Final = frozenset({SessionState.MOVING, SessionState.MOVED})

# A connection that ends this soon after a refused SUBSCRIBE was closed because of that.
_CLOSING_SECONDS: Final = 1.0


class Session:
    """The connections of one client, one after the other.

    Args:
        link: The first link, connected.
        settings: The options of the client.

    Attributes:
        state: Its state.
        connection: The newest connection, which may have ended.
        failure: Why it ended, in the state CLOSED.
        registrations: The open subscriptions, in the order of subscribing.
        receipts: Everything that awaits a RECEIPT. Messages stay there when a connection is lost.
        unexplained: The ERROR without a receipt-id that ended a connection, until everything is restored.
        refused_plain: The newest such ERROR that may be about a message without a receipt, which is not sent again.
        suspect: Refuses the frame that was sent last in such a restoration, because another ERROR must be about it.
        suspicion: Finds the message or subscription that the broker closes connections for without an ERROR.
        refused_one: Where tasks wait until one more subscription is to be retried.
        dialing: The scope in which the next link is dialed.
        outage: The attempts to connect again, and when to give up; None without ``reconnect=``.
        next_link: The link to move to, if the current connection is being left for it.
        ended: Set in the state CLOSED.
    """

    def __init__(self, link: Link, settings: Settings) -> None:
        self.settings = settings
        self.policy = settings.reconnect
        self.outage = None if settings.reconnect is None else Outage(settings.reconnect, settings)
        self.counters = Counters()
        self.states = StateLog()
        self.registrations: dict[Registration, None] = {}
        self.receipts = Receipts(max_messages=settings.unconfirmed_messages, max_bytes=settings.unconfirmed_bytes)
        self.state: SessionState = SessionState.RESTORING
        self._is_left = False
        self._has_left = anyio.Event()
        self.failure: StompError | None = None
        self.unexplained: BrokerError | None = None
        self.refused_plain: BrokerError | None = None
        self.suspect: Callable[[StompError], None] | None = None
        self.suspicion = Suspicion(self.receipts, self.registrations, self.subscription_refused)
        self.refused_one = new_wait_queue()
        self._refused_at = -inf
        self.dialing: anyio.CancelScope | None = None
        self.next_link: Link | None = None
        self.ended = anyio.Event()
        self._resent_before = 0
        self._order = Turns()
        self._changed = new_wait_queue()
        self.connection = Connection(link, settings, self, unsubscribing_at(link.profile))
        # The connection, in the state CONNECTED until the program leaves; each verb looks here first.
        self._usable: Connection | None = None
        self.restored()
        self.connection.route(link.early)

    def __repr__(self) -> str:
        pending = f"{len(self.registrations)} subscriptions, {len(self.receipts.messages)} unconfirmed"
        return f"<Session {self.state.value}: {self.connection!r}, {pending}>"

    def enter(self, step: Step) -> None:
        """Change its state.

        Raises:
            AssertionError: The step is impossible in this state.
        """
        self.state = after(self.state, step)
        self.connection.entered(self.state)
        self._look()

    def _look(self) -> None:
        """Find out whether the connection takes new work, and let tasks that wait look again."""
        self._usable = self.connection if self.state is SessionState.CONNECTED and not self._is_left else None
        self._changed.unpark_all()

    @property
    def link(self) -> Link:
        """The newest link."""
        return self.connection.link

    @property
    def protocol(self) -> ClientProtocol:
        """Its protocol state."""
        return self.connection.protocol

    # --- verbs ----------------------------------------------------------------------------------------------------

    async def turn(self, confirmed_bytes: int | None = None) -> Connection:
        """Wait until this caller may send, and return the connection to send on.

        Callers proceed in the order in which they called. A message that needs a RECEIPT and must wait for room among
        the unconfirmed ones lets others pass, because a broker may confirm nothing until it receives something else.
        Such messages queue for room in order; a publisher queues as one.

        Args:
            confirmed_bytes: The length of the body, if the message needs a RECEIPT.

        Raises:
            StompError: The session is over.
            RuntimeError: The caller runs in another event loop.

        Cancellation: nothing was sent.
        """
        connection = self.at_once(confirmed_bytes)
        if connection is not None:
            return connection
        self.require_own_loop()
        connection, unconfirmed = await self._next_turn(), self.receipts.unconfirmed
        if confirmed_bytes is None or unconfirmed.is_free(confirmed_bytes):
            return connection
        return await unconfirmed.acquire(confirmed_bytes, self._next_turn)

    def require_own_loop(self) -> None:
        """Refuse a caller that runs in another event loop.

        Raises:
            RuntimeError: It does.
        """
        if self.connection.loop_id() != self.connection.loop:
            raise RuntimeError(OTHER_LOOP)

    def at_once(self, confirmed_bytes: int | None = None) -> Connection | None:
        """Return the connection to send on if this caller may send at once. If not, await `turn`."""
        connection = self._usable
        if (
            connection is not None
            and not self._order.taken
            and (confirmed_bytes is None or self.receipts.unconfirmed.is_free(confirmed_bytes))
            and connection.goes_at_once()
        ):
            return connection
        return None

    async def _next_turn(self) -> Connection:
        async with self._order:
            while True:
                connection = await self._wait_usable()
                # It may end meanwhile, and another one may follow: the session is told first.
                with suppress(StompError):
                    await connection.turn()
                if connection is self._usable:
                    return connection

    async def _wait_usable(self) -> Connection:
        while self._usable is None:
            self.check()
            await self._changed.park()
        return self._usable

    @property
    def usable(self) -> Connection | None:
        """The connection that takes new work now, if there is one. Any thread may ask."""
        return self._usable

    @property
    def takes_frames(self) -> bool:
        """Whether there is a connection that takes new work now."""
        return self._usable is not None

    def rested(self) -> None:
        """The caller has just made a checkpoint."""
        self.connection.rested()

    @property
    def is_leaving(self) -> bool:
        """Whether its program has begun to leave it, or it is over."""
        return self._is_left or self.state is SessionState.CLOSED

    def check(self) -> None:
        """Raise if no new work is accepted.

        Raises:
            StompError: Why the session ended.
            ConnectionClosed: The client was closed by its own program.
        """
        if self.failure is not None:
            raise renewed(self.failure)
        if self.is_leaving:
            raise ConnectionClosed(CLOSED)

    def unseen_failure(self) -> StompError | None:
        """Return why the session ended, or else why a message was refused, if the program has not seen that yet."""
        for failure in (self.failure, self.refused_plain):
            if failure is not None and not isinstance(failure, ConnectionClosed) and not was_raised(failure):
                return failure
        return None

    def raise_unseen(self) -> None:
        """Raise `unseen_failure`, if there is one."""
        failure = self.unseen_failure()
        if failure is not None:
            raise renewed(failure)

    # --- subscriptions --------------------------------------------------------------------------------------------

    async def subscribe(self, registration: Registration) -> None:
        """Subscribe, on this connection or the next.

        Raises:
            BrokerError: The broker refused it.
            PoisonSubscription: The broker has closed the connection each time.

        Cancellation: the broker may or may not hold the subscription; `unsubscribe` ends it.
        """
        self.registrations[registration] = None
        while True:
            connection = await self.turn()
            is_here = registration.connection is connection or registration.refusals is not None
            if not is_here and not registration.is_over:
                try:
                    await registration.open_on(connection)
                except StompError:
                    # Lost, or refused by an ERROR that may be about another frame: try the next connection.
                    if connection.is_stale and self.failure is None:
                        continue
                    raise
            registration.raise_refusal()
            return

    def unsubscribe(self, registration: Registration) -> None:
        """Leave a subscription; never waits."""
        self.registrations.pop(registration, None)
        registration.close()
        if self.states.newest.waiting:
            self._note_waiting()

    def subscription_accepted(self, registration: Registration) -> None:
        """The broker has accepted a subscription after a reconnection."""
        registration.accepted()
        refusals, registration.refusals = registration.refusals, None
        if refusals is not None:
            logger.info("%s was accepted again, after %d refusals", registration.options.name, refusals.count)
            self._note_waiting()

    def subscription_refused(self, registration: Registration, error: StompError) -> None:
        """The broker has refused a subscription after a reconnection, or has closed connections for it.

        One that it had accepted before is retried, as the policy says.
        """
        self._refused_at = current_time()
        connection, policy = registration.connection, self.policy
        if registration.is_over or connection is None:
            return
        registration.forget_refused(connection)
        registration.is_suspected = False
        if policy is None or not registration.was_accepted:
            registration.refused(error)
            return
        refusals = registration.refusals or Refusals(policy)
        level = logging.DEBUG if str(refusals.error) == str(error) else logging.WARNING
        logger.log(level, "%s was refused after a reconnection, and is retried: %s", registration.options.name, error)
        refusals.add(error)
        registration.refusals = refusals
        self.refused_one.unpark_all()
        self._note_waiting()

    def give_up(self, registration: Registration) -> None:
        """End a refused subscription, because the policy allows no further attempt."""
        refusals = registration.refusals
        if refusals is None or refusals.error is None:
            raise AssertionError(registration)
        logger.warning("%s was refused %d times: it is given up", registration.options.name, refusals.count)
        registration.refused(refusals.error)
        self._note_waiting()

    def _note_waiting(self) -> None:
        if self.state is SessionState.CONNECTED and self.states.newest.waiting != self._waiting():
            self.note(Phase.CONNECTED)

    def _waiting(self) -> tuple[str, ...]:
        return tuple(each.options.id for each in self.registrations if each.waits_for_retry)

    # --- one connection after the other ---------------------------------------------------------------------------

    def connection_ended(self, failure: StompError, *, attributed: bool) -> bool:
        """The connection has ended; return whether another one follows.

        Args:
            failure: Why it ended.
            attributed: Whether the failure is about one known frame, and reported to its sender.
        """
        if self.state is SessionState.CLOSED:
            return False
        refuses = (
            isinstance(failure, BrokerError) and not attributed and not is_link_trouble(failure.message, failure.body)
        )
        if isinstance(failure, BrokerError) and refuses:
            # Where nothing but the suspect awaits an answer, nothing else can be guilty.
            is_sure = self.suspect is not None and len(self.receipts) <= 1
            if self.suspect is not None:
                self.suspect(failure)
                if self.refused_plain is self.unexplained:
                    self.refused_plain = None
            elif self.connection.sent_plain:
                self.refused_plain = failure
            self.unexplained = None if is_sure else failure
        self.suspect = None
        if self.policy is not None and self.suspicion.connection_ended(self.connection, failure):
            self._refused_at = current_time()
        leaving = self.is_leaving
        if not self._goes_on_after(failure):
            # If nothing is unconfirmed or refused, the loss only ends what was about to end.
            is_over = leaving and self.policy is not None and not refuses
            self._end(ConnectionClosed(CLOSED) if is_over else failure)
            return False
        self.enter(Step.LOSE)
        if self.outage is not None and self.next_link is None:  # fail-back is no loss
            level = self.outage.log_level("loss")
            logger.log(level, "connection to %s lost, reconnecting: %s", self.link.endpoint, failure)
        self.note(Phase.LOST, failure)
        return True

    def _goes_on_after(self, failure: StompError) -> bool:
        # Do not reconnect after the program has closed it.
        if self.outage is None or isinstance(failure, ConnectionClosed):
            return False
        if current_time() - self._refused_at < _CLOSING_SECONDS:
            self.outage.refused_to_restore(was_in_use=self._usable is not None)
        if self.outage.lost(failure, self.connection.opened_at, progressed=self._has_progressed()):
            return False
        if self.state is SessionState.CLOSING:
            # Too late for another connection: the rest of the time is for DISCONNECT.
            return False
        return not self.is_leaving or len(self.receipts.messages) > 0

    def _has_progressed(self) -> bool:
        """Whether a message was confirmed or settled on the newest connection."""
        confirmed = self.receipts.confirmed > self.connection.confirmed_before
        return confirmed or any(registration.has_progressed for registration in self.registrations)

    def install(self, link: Link) -> None:
        """Continue with a new link, on which everything must be restored first."""
        self.next_link = None
        self.counters.reconnections += 1
        self._resent_before = self.receipts.resent
        self.connection = Connection(link, self.settings, self, unsubscribing_at(link.profile))
        self.suspicion.connected()
        self.enter(Step.INSTALL)
        self.connection.route(link.early)

    def restored(self) -> None:
        """Let verbs use the newest connection, because everything is restored on it."""
        if self.counters.reconnections:
            logger.info(
                "connected to %s again; subscriptions restored: %d, messages sent again: %d",
                self.link.endpoint,
                sum(not registration.is_over for registration in self.registrations),
                self.receipts.resent - self._resent_before,
            )
        self.unexplained = None
        self.suspicion.restored()
        self.enter(Step.RESTORE)
        self.note(Phase.CONNECTED)

    def move_to(self, link: Link, *, away_from: Connection) -> bool:
        """Begin to leave a connection gracefully for `link`.

        Returns:
            False if that connection is not in use, so that there is nothing to move.
        """
        if self._usable is not away_from:
            return False
        self.next_link = link
        self.enter(Step.MOVE)
        away_from.move(link.endpoint)
        return True

    def note(self, phase: Phase, cause: StompError | None = None, *, attempt: int = 0, endpoint: bool = True) -> None:
        """Report a state to the program."""
        if phase not in PHASES[self.state]:
            raise AssertionError(f"impossible: {phase} in {self!r}")
        self.states.add(
            ConnectionState(
                phase=phase,
                endpoint=str(self.link.endpoint) if endpoint else None,
                cause=cause,
                attempt=attempt,
                waiting=self._waiting(),
                since=current_time(),
            )
        )

    # --- end ------------------------------------------------------------------------------------------------------

    async def leave(self) -> DisconnectResult:
        """Refuse new work, wait for unconfirmed messages (across reconnections), and disconnect.

        Raises:
            ConnectionLost: Without ``reconnect=``: the connection was lost before DISCONNECT was sent. With it: the
                client has given up. Or not everything was written within ``disconnect_timeout``.
            BrokerError: The broker refused DISCONNECT, or a message that was sent without a receipt.

        Cancellation: the connection stays as it is; the caller closes it.
        """
        self._is_left = True
        self._look()
        try:
            return await self._leave()
        finally:
            self._has_left.set()

    async def leave_or_wait(self) -> None:
        """`leave`; if another task does that already, wait until it has ended there.

        Cancellation: the caller closes the connection.
        """
        if not self.is_leaving:
            await self.leave()
        elif self._is_left:
            await self._has_left.wait()

    async def _leave(self) -> DisconnectResult:
        deadline = current_time() + self.settings.disconnect_timeout
        if self.policy is not None:
            with move_on_at(deadline):
                await self.receipts.unconfirmed.wait_empty()
                if self.state in _LEFT:
                    # It is being left for another host; let that finish.
                    await self.connection.ended.wait()
                self._begin_closing()
                await self.receipts.wait_none()
            if self.connection.failure is not None or self.state in _LEFT:
                # It was lost or left already, and nothing is awaited any more.
                self.close()
        result = DisconnectResult.CLOSED
        if self.failure is None:
            self._begin_closing()
            result = await self.connection.disconnect(deadline)
        self.raise_unseen()
        return result

    def _begin_closing(self) -> None:
        """Let nothing but DISCONNECT be sent, if there is a connection that takes it."""
        if self.connection.is_open:
            self.enter(Step.CLOSE)

    def fail(self, failure: StompError) -> None:
        """End the session for good: every task that waits on it is woken with `failure`."""
        if self.state is SessionState.CLOSED:
            return
        self._end(failure)
        self.connection.fail(failure)
        # If the connection had ended before, messages were waiting for the next one.
        self.receipts.lose_all(failure, keep_messages=False)

    def lost(self, cause: BaseException | None) -> StompError:
        """Return the failure to end it with when one of its tasks fails with `cause`, an error of the stream."""
        return self.connection.lost(cause)

    def close(self) -> None:
        """End the session at once, because its program leaves."""
        self.fail(ConnectionClosed(CLOSED))

    def _end(self, failure: StompError) -> None:
        self.failure = failure
        self.enter(Step.END)
        clean = isinstance(failure, ConnectionClosed)
        logger.log(logging.DEBUG if clean else logging.INFO, "client of %s ended: %s", self.link.endpoint, failure)
        for registration in self.registrations:
            registration.fail(failure)
        self.note(Phase.CLOSED, None if clean else failure)
        if self.dialing is not None:
            self.dialing.cancel()
        self.ended.set()
