"""An order-maintenance list: decides in constant time which of two items comes first, while items move to any place.

Each item has an integer label that grows along the line. An item that moves between two others gets the middle of
their labels; where no integer is left between them, the labels behind the place are spread until the gaps are wide
again. That costs O(log n) a move, amortised over any sequence of moves (P. Dietz and D. Sleator, "Two algorithms for
maintaining order in a list", 1987; Python's integers spare us their circular arithmetic).
"""

from __future__ import annotations

__all__ = ["OrderedList"]

_GAP = 1 << 20


class OrderedList:
    """A line of the numbers 0 … n-1, initially in this order.

    >>> line = OrderedList(4)
    >>> line.move_after(0, 2)
    >>> sorted(range(4), key=line.label.__getitem__)
    [1, 2, 0, 3]
    """

    def __init__(self, size: int) -> None:
        self.label = [_GAP * place for place in range(1, size + 1)]
        """The labels, to compare which of two items comes first; a label means nothing else, and moves change it."""
        self.end = size  # a sentinel before the first and after the last item
        self.label.append(0)
        self._next = [*range(1, size + 1), 0]
        self._previous = [size, *range(size)]

    def move_after(self, item: int, anchor: int) -> None:
        """Put an item directly behind another."""
        assert item != anchor
        self.remove(item)
        self._insert_after(item, anchor)

    def move_before(self, item: int, anchor: int) -> None:
        """Put an item directly in front of another."""
        assert item != anchor
        self.remove(item)
        self._insert_after(item, self._previous[anchor])

    def previous(self, item: int) -> int | None:
        """The item directly in front of an item, if there is one; in front of `end`, the last item."""
        found = self._previous[item]
        return None if found == self.end else found

    def remove(self, item: int) -> None:
        """Take an item out for good; its label no longer means anything."""
        before, after = self._previous[item], self._next[item]
        self._next[before] = after
        self._previous[after] = before

    def _insert_after(self, item: int, anchor: int) -> None:
        if self._label_behind(anchor) - self.label[anchor] < 2:
            self._spread(anchor)
        after = self._next[anchor]
        self.label[item] = (self.label[anchor] + self._label_behind(anchor)) // 2
        self._next[anchor] = self._previous[after] = item
        self._previous[item], self._next[item] = anchor, after

    def _label_behind(self, item: int) -> int:
        after = self._next[item]
        return self.label[item] + 2 * _GAP if after == self.end else self.label[after]

    def _spread(self, anchor: int) -> None:
        """Widen the gaps behind the anchor, over the shortest run that ends more than its squared length away."""
        base = self.label[anchor]
        run: list[int] = []
        item = self._next[anchor]
        while item != self.end and self.label[item] - base <= (len(run) + 1) ** 2:
            run.append(item)
            item = self._next[item]
        parts = len(run) + 1
        span = (self.label[item] if item != self.end else base + parts * _GAP) - base
        for place, moved in enumerate(run, 1):
            self.label[moved] = base + place * span // parts
