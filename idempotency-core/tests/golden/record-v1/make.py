#!/usr/bin/env python3
"""Writes the golden records of format 1, from the layout table and nothing else.

It knows none of the Rust code, so a record that both agree on has the layout that is documented.
Run once, when the format was made. The files never change: a new format gets a folder of its own.
"""

import hashlib
import pathlib
import struct

PLACE = "idempotency/merchant_42/order-7"
FINGERPRINT = bytes([1]) + bytes(range(0x20, 0x40))
TOKEN = bytes(range(0xA0, 0xB0))
DAY = 86_400_000
FIRST, CLAIMED, EXPIRES, MOMENT = 1_767_225_600_000, 1_767_225_660_001, 1_767_312_090_002, 1_767_225_690_003


def record(state, attempt, sequence, payload, first=FIRST, moment=MOMENT):
    body = b"IDEM" + struct.pack(">BB", 1, state)
    body += hashlib.sha256(PLACE.encode()).digest()[:16]
    body += FINGERPRINT + TOKEN
    body += struct.pack(">IQ", attempt, DAY)
    body += struct.pack(">QQQQQ", first, CLAIMED, EXPIRES, moment, sequence)
    body += struct.pack(">BI", payload is not None, len(payload or b""))
    assert len(body) == 128
    body += payload or b""
    return body + hashlib.sha256(body).digest()[:8]


RECORDS = {
    "in-progress": record(0, 1, 0, None, first=CLAIMED),
    "in-progress-renewed": record(0, 3, 9, b"charge created"),
    "released-failed": record(1, 2, 0, b""),
    "released-unknown": record(2, 1, 0, b"\x00\xff\xfe", first=CLAIMED),
    "completed": record(3, 4_294_967_295, 0, bytes(range(256))),
    "completed-empty": record(3, 1, 0, b"", first=CLAIMED),
    "unused": record(4, 1, 0, None, first=CLAIMED, moment=CLAIMED),
}

for name, stored in RECORDS.items():
    path = pathlib.Path(__file__).with_name(name + ".bin")
    path.write_bytes(stored)
