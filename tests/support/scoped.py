"""What is closed with its scope."""

from abc import ABC, abstractmethod
from typing import Self


class Scoped(ABC):
    """Something that is closed at the end of a `with`."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
