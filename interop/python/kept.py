"""Differences between RabbitMQ and Leveret that stay, from a list with their reasons."""

import fnmatch


class Kept:
    """Differences that stay: each pattern `NAME | DIFFERENCE`, with the wildcards of a shell, below the reason for
    it; NAME is that of an exchange, or a request."""

    def __init__(self, lines):
        self.patterns, self.used, reason = [], set(), None
        for line in lines:
            if line.startswith("#"):
                reason = line
            elif reason is None:
                raise RuntimeError(f"kept.txt: {line} has no reason")
            else:
                self.patterns.append(tuple(part.strip().replace("[", "[[]") for part in line.split(" | ", 1)))

    def takes(self, name, difference):
        for pattern in self.patterns:
            if fnmatch.fnmatchcase(name, pattern[0]) and fnmatch.fnmatchcase(difference, pattern[1]):
                self.used.add(pattern)
                return True
        return False

    def unused(self):
        return [" | ".join(pattern).replace("[[]", "[") for pattern in self.patterns if pattern not in self.used]
