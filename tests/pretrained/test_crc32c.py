"""The CRC-32C of RFC 3720, whatever the length of the data."""

import numpy as np
import pytest

from albert.pretrained.tensor_bundle import crc32c, masked_crc32c


def crc32c_by_definition(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


# The examples of RFC 3720, section B.4, and the customary check value.
@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_published_values(data, crc):
    assert crc32c(data) == crc


@pytest.mark.parametrize("size", [1, 3, 255, 256, 257, 511, 512, 16383, 16384, 16385, 33333])
def test_folding_rows_of_words_changes_nothing(size):
    data = np.random.default_rng(size).bytes(size)
    assert crc32c(data) == crc32c_by_definition(data)


def test_the_mask_is_the_one_of_tensorflow():
    # What TFRecordWriter stores after the record b"123456789".
    assert masked_crc32c(b"123456789") == 0xC78AB0E5
