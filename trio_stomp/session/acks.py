"""Which messages may be settled, and the way out for ACK and NACK.

Theory of operation. An `AckTracker` keeps the unsettled messages of one subscription on one connection. Whatever
settles a message goes through it: `Message.ack` and `Message.nack`, ``async with message``, `Subscription.ack_up_to`,
worker pools, and transactions by way of `TransactedAcks`.

Two tables decide. `_LEGAL` says whether a verb may be used, by the state of the message, the verb and the version of
STOMP, and for a NACK by what the broker would do with it (`_NACK`). `_REACH` says which messages the verb settles and
how many frames that takes, by the ack mode and the verb.
"""
# ruff: noqa: SLF001  # a message and its tracker share state that users must not touch
# pyright: reportPrivateUsage=false

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from trio_stomp.brokers import NackMeaning, Profile, require_bool
from trio_stomp.errors import LocalProtocolError, NotInVersionError, NotSupportedError, StaleMessage, StompError
from trio_stomp.protocol import AckMode, Command, Headers, Version
from trio_stomp.session.hooks import Observer
from trio_stomp.session.limits import Limit, limit_of
from trio_stomp.session.message import Message, Settlement
from trio_stomp.session.outgoing import HeaderInput, header_pairs

if TYPE_CHECKING:
    from trio_stomp.session.connection import Connection

__all__ = ["AckTracker", "TransactedAcks", "tracker_of"]

logger: Final = logging.getLogger("trio_stomp")


class _Gone(enum.Enum):
    """The state of an open message that can no longer be settled."""

    SUBSCRIPTION = enum.auto()
    CONNECTION = enum.auto()


class _Rule(enum.Enum):
    """What happens to an ACK or NACK: it is sent, or refused for the reason that the value gives."""

    SEND = "it is sent"
    BY_BROKER = "see _NACK"
    AUTO = "its subscription is in auto mode, which needs no ACK"
    SETTLED = "it is settled"
    LEFT = "its subscription is gone"
    LOST = "its connection is gone"
    NO_NACK = "STOMP 1.0 has no NACK"
    DISCARDS = "the broker would drop the message"
    NO_CHOICE = "the broker does not support that value of requeue="


# fmt: off
_LEGAL: Final[Mapping[Settlement | _Gone, tuple[_Rule, _Rule, _Rule]]] = {
    # state of the message      ACK            NACK             NACK in STOMP 1.0
    Settlement.UNSETTLED:      (_Rule.SEND,    _Rule.BY_BROKER, _Rule.NO_NACK),
    Settlement.AUTO:           (_Rule.AUTO,    _Rule.AUTO,      _Rule.AUTO),
    Settlement.IN_TRANSACTION: (_Rule.SETTLED, _Rule.SETTLED,   _Rule.SETTLED),
    Settlement.ACKED:          (_Rule.SETTLED, _Rule.SETTLED,   _Rule.SETTLED),
    Settlement.NACKED:         (_Rule.SETTLED, _Rule.SETTLED,   _Rule.SETTLED),
    _Gone.SUBSCRIPTION:        (_Rule.LEFT,    _Rule.LEFT,      _Rule.LEFT),
    _Gone.CONNECTION:          (_Rule.LOST,    _Rule.LOST,      _Rule.LOST),
}
_NACK: Final[Mapping[NackMeaning, _Rule]] = {
    NackMeaning.UNKNOWN:            _Rule.SEND,
    NackMeaning.REQUEUE:            _Rule.SEND,
    NackMeaning.DEAD_LETTER:        _Rule.SEND,
    NackMeaning.DEAD_LETTER_IF_SET: _Rule.SEND,
    NackMeaning.DISCARD:            _Rule.DISCARDS,
    NackMeaning.IMPOSSIBLE:         _Rule.NO_CHOICE,
}


class _Reach(enum.Enum):
    """Which messages a verb settles, and by how many frames."""

    ONE = "the message"
    EACH = "the message and all earlier open ones, a frame for each"
    ALL = "the message and all earlier open ones, by one frame"


_REACH: Final[Mapping[tuple[AckMode, AckMode], tuple[_Reach, _Reach, _Reach]]] = {
    # ack mode asked for        and sent to the broker        ACK         NACK         ack_up_to()
    (AckMode.AUTO,              AckMode.AUTO):              (_Reach.ONE,  _Reach.ONE,  _Reach.ONE),
    (AckMode.CLIENT_INDIVIDUAL, AckMode.CLIENT_INDIVIDUAL): (_Reach.ONE,  _Reach.ONE,  _Reach.EACH),
    # ActiveMQ takes a NACK for one message even in this mode.
    (AckMode.CLIENT,            AckMode.CLIENT):            (_Reach.ALL,  _Reach.EACH, _Reach.ALL),
    # Where an ACK in mode "client" would settle messages of other subscriptions too, the mode is emulated.
    (AckMode.CLIENT,            AckMode.CLIENT_INDIVIDUAL): (_Reach.EACH, _Reach.EACH, _Reach.EACH),
}
# fmt: on

# Looking up a member of an enumeration takes five times as long as looking up a global.
_ACK: Final = Command.ACK
_ONE: Final = _Reach.ONE
_ALL: Final = _Reach.ALL
_SEND: Final = _Rule.SEND
_UNSETTLED: Final = Settlement.UNSETTLED
_ACKED: Final = Settlement.ACKED
_NACKED: Final = Settlement.NACKED
_NOTHING: Final[Sequence[tuple[str, str]]] = ()


class AckTracker:
    """The unsettled messages of one subscription on one connection.

    Args:
        connection: The connection.
        subscription_id: Id of the subscription.
        name: Name of the subscription in messages.
        ack: Ack mode that its user asked for.

    Attributes:
        connection: The connection.
        wire_mode: Ack mode that the broker is asked for; see `_REACH`.
        closed: Whether the subscription was left or is gone.
        observer: The hooks, if there are any.
        then_leave: Sends the UNSUBSCRIBE that waits for the end of transactions; None if none waits.
    """

    def __init__(self, connection: Connection, *, subscription_id: str, name: str, ack: AckMode) -> None:
        emulated = (
            ack is AckMode.CLIENT
            and connection.profile.client_ack_crosses_subscriptions
            and connection.protocol.version is not Version.V1_0
        )
        self.wire_mode = AckMode.CLIENT_INDIVIDUAL if emulated else ack
        self.closed = False
        self.observer: Observer | None = connection.observer
        self.connection = connection
        self._ack_reach, self._nack_reach, self._up_to_reach = _REACH[ack, self.wire_mode]
        self._is_plain = self._ack_reach is _ONE and self.observer is None
        self._id = subscription_id
        self._name = name
        self._open: dict[int, Message] = {}
        self._promised: set[Message] = set()
        self.then_leave: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, message: Message) -> None:
        """Add a message that a consumer has taken and is going to settle."""
        self._open[message.sequence] = message

    def held(self) -> list[Headers]:
        """Return the headers of all open messages, in the order in which they were taken."""
        return [message.headers for message in self._open.values()]

    def let_go(self) -> None:
        """Drop the open messages, which cannot be settled any more: each ends with the last reference of a consumer.

        Without this, a spooled body would keep its file until the garbage collector finds the cycle of both.
        """
        self._open.clear()

    @property
    def profile(self) -> Profile:
        """The broker that delivered the messages."""
        return self.connection.profile

    @property
    def is_gone(self) -> bool:
        """Whether the subscription or its connection is gone."""
        return self.closed or self.connection.is_gone

    def dead_letters(self, message: Message) -> bool:
        """Return whether a NACK without requeuing certainly dead-letters a message."""
        return self.profile.nack(message.headers, False) is NackMeaning.DEAD_LETTER  # noqa: FBT003  # the argument is requeue

    # --- settling -------------------------------------------------------------------------------------------------

    def ack_at_once(self, message: Message) -> bool:
        """Send a plain ACK if that needs neither waiting nor a look at the tables.

        Returns:
            Whether it was sent. If not, `settle` waits and sends it, or raises the reason why it may not be sent.
        """
        connection = self.connection
        if message._settlement is not _UNSETTLED or self.closed or not self._is_plain or not connection.goes_at_once():
            return False
        connection.post(connection.protocol.acknowledge(_ACK, message._frame.headers, self._id))
        message._settlement = _ACKED
        self._open.pop(message.sequence, None)
        return True

    async def settle(
        self,
        message: Message,
        command: Command,
        *,
        receipt: bool = False,
        headers: HeaderInput | None = None,
        requeue: bool | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send ACK or NACK; see `Message.ack` and `Message.nack`."""
        connection = self.connection
        seconds = limit_of(timeout, connection.settings.timeout)
        goes_at_once = connection.goes_at_once()
        pairs = _NOTHING if headers is None else header_pairs(headers)
        if receipt:
            require_bool("receipt", receipt)
        if goes_at_once and not receipt:
            self.settle_nowait(message, command, headers=pairs, requeue=requeue)
            return
        async with Limit(seconds, f"{command.value.lower()}() of message {message.id!r}", connection) as limit:
            if not goes_at_once:
                self._require_legal(message, command, requeue=requeue)
                await connection.turn()
            if not receipt:
                self.settle_nowait(message, command, headers=pairs, requeue=requeue)
                return
            with connection.receipts.expected() as expected:
                self.settle_nowait(message, command, headers=[*pairs, ("receipt", expected.id)], requeue=requeue)
                limit.outcome = f"the broker has not confirmed the {command.value}, which may or may not have arrived"
                try:
                    await expected.wait()
                except StompError as error:
                    if connection.is_stale and not expected.was_refused:
                        # The ACK may have arrived. If it has not, the broker redelivers the message.
                        raise connection.raisable(error) from error
                    raise

    async def ack_up_to(self, message: Message, timeout: float | None = None) -> None:
        """Acknowledge a message and all earlier open ones; see `Subscription.ack_up_to`."""
        connection = self.connection
        seconds = limit_of(timeout, connection.settings.timeout)
        self._require_legal(message, Command.ACK)
        async with Limit(seconds, f"ack_up_to() of message {message.id!r}", connection):
            await connection.turn()
        self.settle_nowait(message, Command.ACK, reach=self._up_to_reach)

    def settle_nowait(
        self,
        message: Message,
        command: Command,
        *,
        headers: Sequence[tuple[str, str]] = _NOTHING,
        transaction: str | None = None,
        requeue: bool | None = None,
        reach: _Reach | None = None,
        is_promised: bool = False,
    ) -> list[Message]:
        """Send ACK or NACK without waiting; return the messages that it settles.

        Args:
            message: The message.
            command: ACK or NACK.
            headers: More headers of the frame that names `message`.
            transaction: Id of the transaction that the frame is part of.
            requeue: As in `Message.nack`.
            reach: Which messages to settle. Default: by `_REACH`.
            is_promised: Whether to do it also if the subscription is about to be left.
        """
        self._require_legal(message, command, requeue=requeue, is_promised=is_promised)
        if reach is None:
            reach = self._ack_reach if command is _ACK else self._nack_reach
        settled = [message] if reach is _ONE else self._up_to(message)
        if command is not _ACK:
            for each in settled:
                self._require_legal(each, command, requeue=requeue, is_promised=is_promised)
        connection = self.connection
        choice = _NOTHING if requeue is None else self.profile.requeue(requeue)
        # All before the first is sent, because one may be impossible to encode.
        frames = [
            connection.protocol.acknowledge(
                command,
                each.headers,
                self._id,
                # `requeue` is for every message; headers of the user's, and a receipt, only for the last.
                headers=(*choice, *headers) if each is message else choice,
                transaction=transaction,
            )
            for each in (settled if reach is not _ALL else (message,))
        ]
        for frame in frames:
            connection.post(frame)
        outcome = _ACKED if command is _ACK else _NACKED
        settlement = outcome if transaction is None else Settlement.IN_TRANSACTION
        for each in settled:
            each._settlement = settlement
            self._open.pop(each.sequence, None)
        if self.observer is not None:
            self.observer.settled(settled, outcome, transaction)
        return settled

    def _up_to(self, message: Message) -> list[Message]:
        # A message that was promised to a transaction stays in the book; the transaction decides about it.
        return [
            each for each in self._open.values() if each.sequence <= message.sequence and each._settlement is _UNSETTLED
        ]

    # --- transactions ---------------------------------------------------------------------------------------------

    def reopen(self, message: Message) -> None:
        """Open a message again because its transaction was not committed."""
        message._settlement = Settlement.UNSETTLED
        self.forget_promise(message)
        if self.closed:
            # It was promised to the transaction when its subscription was left, and so was not requeued.
            self.connection.unsubscribing.late_message(message.headers, self._id)
            return
        self._open[message.sequence] = message
        self._open = dict(sorted(self._open.items()))

    def promise(self, message: Message, command: Command, *, requeue: bool | None) -> None:
        """Note that a message will be settled once a transaction is confirmed."""
        self._require_legal(message, command, requeue=requeue)
        message._settlement = Settlement.IN_TRANSACTION
        self.add_promised([message])

    def add_promised(self, messages: Sequence[Message]) -> None:
        """Note messages that a transaction settles while the subscription is open at the broker."""
        self._promised.update(messages)

    def keep_promise(self, message: Message, command: Command, *, requeue: bool | None) -> None:
        """Settle a promised message. If that has become impossible, the broker redelivers it."""
        message._settlement = Settlement.UNSETTLED
        try:
            self.settle_nowait(message, command, requeue=requeue, is_promised=True)
        except StompError as error:
            logger.warning("message %r was settled in a transaction, but stays unsettled: %s", message.id, error)
        self.forget_promise(message)

    def committed(self, message: Message, settlement: Settlement) -> None:
        """Note that the transaction that an ACK or NACK was part of is confirmed."""
        message._settlement = settlement
        if message in self._promised and self.closed and self.then_leave is None:
            logger.warning(
                "message %r was settled in a transaction, but may be redelivered: its %s was left before COMMIT",
                message.id,
                self._name,
            )
        self.forget_promise(message)

    def forget_promise(self, message: Message) -> None:
        """Note that a promise has ended. If no other is left, and the subscription was left, send UNSUBSCRIBE."""
        self._promised.discard(message)
        if not self._promised and self.then_leave is not None:
            self.then_leave()

    @property
    def has_promised(self) -> bool:
        """Whether a transaction is going to settle messages."""
        return bool(self._promised)

    # --- what is legal --------------------------------------------------------------------------------------------

    def _require_legal(
        self, message: Message, command: Command, *, requeue: bool | None = None, is_promised: bool = False
    ) -> None:
        """Raise unless the tables allow an ACK or NACK of a message."""
        state: Settlement | _Gone = message._settlement
        if state is _UNSETTLED and self.connection.is_gone:
            state = _Gone.CONNECTION
        elif state is _UNSETTLED and self.closed and not (is_promised and self.then_leave is not None):
            state = _Gone.SUBSCRIPTION
        ack, nack, nack_in_1_0 = _LEGAL[state]
        rule = ack
        if command is not _ACK:
            rule = nack_in_1_0 if self.connection.protocol.version is Version.V1_0 else nack
            if requeue is not None:
                require_bool("requeue", requeue)
            if rule is _Rule.BY_BROKER:
                rule = _NACK[self.profile.nack(message.headers, requeue)]
        if rule is not _SEND:
            self._refuse(rule, message, command, requeue=requeue)

    def _refuse(self, rule: _Rule, message: Message, command: Command, *, requeue: bool | None) -> NoReturn:
        what, broker, connection = f"{command.value} of message {message.id!r}", self.profile.name, self.connection
        if rule is _Rule.LOST:
            connection.counters.stale_messages += connection.is_stale
            connection.check()
        if rule is _Rule.AUTO:
            raise LocalProtocolError(f"{what}: {rule.value}")
        if rule is _Rule.SETTLED:
            raise LocalProtocolError(f"{what}: {rule.value} ({message.settlement.value})")
        if rule is _Rule.LEFT:
            raise StaleMessage(f"{what}: its {self._name} is gone; the broker redelivers it")
        if rule is _Rule.NO_NACK:
            title = connection.protocol.title
            raise NotInVersionError(f"{title} has no NACK; leave the message unsettled, and the broker redelivers it")
        if rule is _Rule.DISCARDS:
            raise NotSupportedError(
                f"{broker} would drop the message {message.id!r} silently on NACK; acknowledge it, or leave it "
                "unsettled, and the broker redelivers it when the subscription ends"
            )
        if rule is _Rule.NO_CHOICE:
            instead = (
                "leave it unsettled, and the broker redelivers it when the subscription ends"
                if requeue
                else "send it to a dead-letter destination and acknowledge it, in one transaction"
            )
            raise NotSupportedError(
                f"{broker} has no NACK with requeue={requeue} for message {message.id!r}; {instead}"
            )
        raise AssertionError(rule)


class TransactedAcks:
    """The messages that one transaction settles. They are settled for good when it is committed.

    Artemis ignores the transaction of an ACK. There nothing is sent before the COMMIT is confirmed, and a subscription
    that is left in the meantime gets its UNSUBSCRIBE after that.

    Args:
        connection: The connection of the transaction.
        transaction_id: Its id.
    """

    def __init__(self, connection: Connection, transaction_id: str) -> None:
        self._connection = connection
        self._id = transaction_id
        self._sent: list[tuple[Message, Settlement]] = []
        self._promised: list[tuple[Message, Command, bool | None]] = []

    def settle(self, message: Message, command: Command, *, requeue: bool | None = None) -> None:
        """Make the ACK or NACK of a message part of the transaction."""
        profile, tracker = self._connection.profile, tracker_of(message)
        if tracker.connection is not self._connection:
            if message.is_stale:
                raise StaleMessage(
                    f"{command.value} of message {message.id!r}: its connection is gone; the broker redelivers it"
                )
            raise LocalProtocolError(
                f"message {message.id!r} came over another connection than transaction {self._id!r}"
            )
        if command is Command.NACK and not profile.nacks_in_transactions:
            raise NotSupportedError(
                f"{profile.name} does not support NACK in a transaction; refuse the message outside of it"
            )
        if profile.acks_ignore_transactions:
            tracker.promise(message, command, requeue=requeue)
            self._promised.append((message, command, requeue))
            return
        settled = tracker.settle_nowait(message, command, transaction=self._id, requeue=requeue)
        if tracker.wire_mode is AckMode.CLIENT and not profile.keeps_unsettled_after_unsubscribe:
            # ActiveMQ Classic forgets such an ACK if UNSUBSCRIBE comes before COMMIT.
            tracker.add_promised(settled)
        self._sent += [(each, _ACKED if command is _ACK else _NACKED) for each in settled]

    def commit(self) -> None:
        """Settle the messages: the COMMIT was confirmed."""
        for message, settlement in self._sent:
            tracker_of(message).committed(message, settlement)
        for message, command, requeue in self._promised:
            tracker_of(message).keep_promise(message, command, requeue=requeue)

    def abort(self) -> None:
        """Open the messages again: nothing in the transaction took effect."""
        for message in self._all():
            tracker_of(message).reopen(message)

    def give_up(self) -> None:
        """Promise nothing any more: it is unknown whether the transaction was committed."""
        for message in self._all():
            tracker_of(message).forget_promise(message)

    def _all(self) -> list[Message]:
        return [*(each for each, _ in self._sent), *(each for each, _, _ in self._promised)]


def tracker_of(message: Message) -> AckTracker:
    """Return the tracker of a message, for other parts of this library."""
    acks = message._acks
    if not isinstance(acks, AckTracker):
        raise AssertionError(acks)  # noqa: TRY004  # there is no other kind
    return acks
