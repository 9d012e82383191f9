"""Filters of a text that comes in pieces: each has feed(piece) and end()."""


def held_back(text, markers):
    """How many characters at the end of the text may be the beginning of a marker."""
    most = min(len(text), max(map(len, markers), default=1) - 1)
    return next((count for count in range(most, 0, -1) if any(marker.startswith(text[-count:]) for marker in markers)), 0)


def first_marker(text, markers):
    """(place, marker) of the marker that ends first, the longest of those; or None. So pieces do not change which is found."""
    found = [(place + len(marker), place, marker) for marker in markers if (place := text.find(marker)) >= 0]
    return min(found)[1:] if found else None


class StopFilter:
    """Passes a text on up to the first of the stop strings; `stopped`: one has come. The engine finds them too (src/tokenizer/stop_finder),
    and ends a text without a token too many; here they are found where they count only in the content, of which the engine knows nothing:
    a text that has thinking or calls of tools. The cases of both are in tests/tokenizer/stop_strings.txt."""

    def __init__(self, stops):
        self.stops, self.rest, self.stopped = list(stops), '', False

    def feed(self, piece):
        if self.stopped or not self.stops:
            return '' if self.stopped else piece
        text = self.rest + piece
        found = first_marker(text, self.stops)
        if found:
            self.stopped, self.rest = True, ''
            return text[:found[0]]
        keep = held_back(text, self.stops)
        self.rest = text[len(text) - keep:]
        return text[:len(text) - keep]

    def end(self):
        rest, self.rest = self.rest, ''
        return rest


class Remover:
    """Drops markers from a text, such as the token that ends a turn."""

    def __init__(self, markers):
        self.markers, self.rest = [marker for marker in markers if marker], ''

    def feed(self, piece):
        if not self.markers:
            return piece
        text, kept = self.rest + piece, ''
        while found := first_marker(text, self.markers):
            kept, text = kept + text[:found[0]], text[found[0] + len(found[1]):]
        keep = held_back(text, self.markers)
        self.rest = text[len(text) - keep:]
        return kept + text[:len(text) - keep]

    def end(self):
        rest, self.rest = self.rest, ''
        return rest
