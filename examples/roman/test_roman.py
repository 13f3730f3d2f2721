import unittest

from roman import roman


class RomanTest(unittest.TestCase):
    def test_small_numbers(self):
        self.assertEqual([roman(n) for n in (1, 4, 9, 14)], ["I", "IV", "IX", "XIV"])

    def test_forties(self):
        self.assertEqual(roman(49), "XLIX")


if __name__ == "__main__":
    unittest.main()
