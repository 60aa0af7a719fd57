"""Appends a message and puts a job with each number from the given one on, until its input ends;
then says which number would be next."""

from __future__ import annotations

import select
import sys
import time

from milepost import Job, Message, Milepost

PAUSE_SECONDS = 0.01


def main() -> None:
    mp, n = Milepost(), int(sys.argv[1])
    with mp.connect() as conn:
        while not select.select([sys.stdin], [], [], 0)[0]:
            with conn.transaction():
                mp.append(conn, Message("Counted", {"n": n}, key=f"k{n % 50}"))
                mp.put(conn, Job("emails", n))
            n += 1
            time.sleep(PAUSE_SECONDS)
    sys.stdout.write(str(n))


if __name__ == "__main__":
    main()
