"""Objects that a `with` closes."""

from __future__ import annotations

from types import TracebackType


class Closing:
    """Something that a `with` closes."""

    def close(self) -> None:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
