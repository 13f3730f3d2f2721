"""Evaluates the roman.py in the same folder: checks its Roman numerals for 1 to 3999."""

import json
import sys

from roman import roman

DIGITS = ["", "a", "aa", "aaa", "ab", "b", "ba", "baa", "baaa", "ac"]  # pattern of each digit; a, b and c mean one, five and ten


def expected(number):
    text = ""
    for place, letters in ((1000, "M"), (100, "CDM"), (10, "XLC"), (1, "IVX")):
        digit, number = divmod(number, place)
        text += DIGITS[digit].translate({ord(a): letter for a, letter in zip("abc", letters)})
    return text


wrong = [number for number in range(1, 4000) if roman(number) != expected(number)]
report = {"cases": 3999, "right": 3999 - len(wrong), "first_wrong": wrong[0] if wrong else None}
with open(sys.argv[1], "w") as file:
    json.dump(report, file)
print(json.dumps(report))
