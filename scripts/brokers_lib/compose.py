"""placeholder, replaced below."""


def write(*, check: bool) -> int:
    raise SystemExit(check)
