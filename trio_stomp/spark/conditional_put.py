"""Conditional writes to S3, which pyarrow cannot make: by botocore, if it is installed.

On the clusters of AWS and Databricks it always is. The credentials are those that pyarrow would use: the options of the
spool, or the chain of the environment, profiles and the metadata of the machine.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlsplit

__all__ = ["put_if_new"]

_EXISTS: Final = frozenset({"PreconditionFailed", "412"})
# Another write of this object is under way, which may fail: S3 asks to try again. Some stores say this if it exists.
_CONFLICTS: Final = frozenset({"ConditionalRequestConflict", "409"})
_ATTEMPTS: Final = 4
_PAUSE_SECONDS: Final = 0.25


class _S3(Protocol):
    """The part of botocore's client that is used; it has no types of its own."""

    def put_object(self, **request: str | bytes) -> object: ...


def put_if_new(uri: str, settings: Mapping[str, str], path: str, octets: bytes) -> bool | None:
    """Write an object unless there is one with this path, which is a bucket and a key.

    The store is reached as the spool is, by its URI and the arguments of its file system.

    Returns:
        Whether it was written; None if this store or this machine does not support conditional writes.

    Raises:
        OSError: The store refused for another reason, or did not answer.
    """
    if urlsplit(uri).scheme != "s3" or importlib.util.find_spec("botocore") is None:
        return None
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415  # optional

    bucket, _, key = path.partition("/")
    client = _client(uri, settings)
    for left in reversed(range(_ATTEMPTS)):
        try:
            client.put_object(Bucket=bucket, Key=key, Body=octets, IfNoneMatch="*")
        except ClientError as error:
            code = _code_of(error)
            if code in _CONFLICTS and left:
                time.sleep(_PAUSE_SECONDS)
                continue
            if code in _EXISTS or code in _CONFLICTS:
                return False
            if code in {"NotImplemented", "InvalidArgument"}:
                return None
            raise OSError(f"{code}: {error}") from None
        except BotoCoreError as error:
            raise OSError(str(error)) from error
        return True
    raise AssertionError  # the last round returns or raises


def _code_of(error: Exception) -> str:
    """The code of an error of S3. The stubs do not say of what its response is."""
    match getattr(error, "response", None):
        case {"Error": {"Code": str(code)}}:
            return code
        case _:
            return ""


def _client(uri: str, given: Mapping[str, str]) -> _S3:
    from botocore import UNSIGNED  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415  # optional
    from botocore.config import Config  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415  # optional
    from botocore.session import get_session  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415  # optional

    settings = {**dict(parse_qsl(urlsplit(uri).query)), **given}
    endpoint = settings.get("endpoint_override")
    if endpoint and "://" not in endpoint:
        endpoint = f"{settings.get('scheme', 'https')}://{endpoint}"
    is_anonymous = settings.get("anonymous", "").lower() == "true"
    found: _S3 = get_session().create_client(  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]  # it makes its methods when it runs
        "s3",
        region_name=settings.get("region"),
        endpoint_url=endpoint,
        aws_access_key_id=settings.get("access_key"),
        aws_secret_access_key=settings.get("secret_key"),
        aws_session_token=settings.get("session_token"),
        config=Config(signature_version=UNSIGNED) if is_anonymous else None,
    )
    return found
