"""Evaluates the pseudocode of AMD's ISA documents, as the PyPI package tinygrad 0.14 carries it.

A value is bits with a width and a kind: U unsigned, I signed, B bits, F float. `run` executes the text of
one operation for one lane and returns the variables it has assigned.
"""

import math
import re
import struct
from fractions import Fraction

TOKEN = re.compile(
    r"""\s*(?:
    (?P<comment>//[^\n]*|"[^"]*")
  | (?P<cast>\d+'(?:BF|[UIFB])(?=\())
  | (?P<type>\d+'(?:BF|[UIFB])\b)
  | (?P<num>\d+'-?(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)[UIFB]?
      |0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?)
  | (?P<id>[A-Za-z_]\w*)
  | (?P<op>\+:|\*\*|<<|>>|<>|<=|>=|==|!=|&&|\|\||\+=|-=|[-+*/%<>=!~&|^?:.,;(){}\[\]])
)""",
    re.X,
)
FORMATS = {16: ("e", "H", 5, 10), 32: ("f", "I", 8, 23), 64: ("d", "Q", 11, 52)}


class V:
    """Bits with a width and a kind."""

    __slots__ = ("bits", "width", "kind", "signed_zero")

    def __init__(self, bits, width, kind, signed_zero=False):
        self.bits, self.width, self.kind = bits & ((1 << width) - 1), width, kind
        self.signed_zero = signed_zero

    @property
    def value(self):
        if self.kind == "F":
            return to_float(self.bits, self.width)
        if self.kind == "I" and self.bits >> (self.width - 1):
            return self.bits - (1 << self.width)
        return self.bits


def to_float(bits, width):
    f, i, _, _ = FORMATS[width]
    return struct.unpack("<" + f, struct.pack("<" + i, bits))[0]


def is_nan(v):
    _, _, e, m = FORMATS[v.width]
    return v.bits >> m & ((1 << e) - 1) == (1 << e) - 1 and v.bits & ((1 << m) - 1) != 0


def from_fraction(x, width, negative_zero=False, toward_zero=False):
    """The float nearest to an exact number (or the next towards zero)."""
    _, _, e, m = FORMATS[width]
    bias = (1 << (e - 1)) - 1
    if x == 0:
        return V((1 << (width - 1)) if negative_zero else 0, width, "F")
    sign, x = (1, -x) if x < 0 else (0, x)
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** exponent > x:
        exponent -= 1
    exponent = max(exponent, 1 - bias)
    scaled = x / Fraction(2) ** (exponent - m)
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    if not toward_zero and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)):
        whole += 1
    bits = (exponent + bias - 1 << m) + whole if whole >> m else whole
    limit = ((1 << e) - 1) << m
    if bits >= limit:
        bits = limit - 1 if toward_zero else limit
    return V(sign << (width - 1) | bits, width, "F")


def from_float(x, width, toward_zero=False):
    if math.isnan(x):
        _, _, e, m = FORMATS[width]
        return V((((1 << e) - 1) << m) | 1 << (m - 1), width, "F")
    if math.isinf(x):
        _, _, e, m = FORMATS[width]
        return V(((1 << e) - 1) << m | (x < 0) << (width - 1), width, "F")
    return from_fraction(Fraction(x), width, math.copysign(1, x) < 0, toward_zero)


def to_width(v, width, toward_zero=False):
    """A float in another format; a NaN keeps what it signals."""
    if v.width == width:
        return V(v.bits, width, "F")
    if is_nan(v):
        _, _, e, m = FORMATS[v.width]
        _, _, e2, m2 = FORMATS[width]
        payload = v.bits & ((1 << m) - 1)
        payload = payload << (m2 - m) if m2 > m else payload >> (m - m2)
        sign = v.bits >> (v.width - 1)
        return V(sign << (width - 1) | ((1 << e2) - 1) << m2 | (payload or 1 << (m2 - 1)), width, "F")
    return from_float(v.value, width, toward_zero)


def fma(a, b, c):
    x, y, z = a.value, b.value, c.value
    if any(map(math.isnan, (x, y, z))) or any(map(math.isinf, (x, y, z))):
        product = float("nan") if math.isnan(x) or math.isnan(y) else special_product(x, y)
        return from_float(product + z if not math.isinf(product) or not math.isinf(z) or product == z else float("nan"), a.width)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    negative = math.copysign(1, x) * math.copysign(1, y) < 0
    return from_fraction(exact, a.width, negative and math.copysign(1, z) < 0)


def special_product(x, y):
    if (math.isinf(x) and y == 0) or (math.isinf(y) and x == 0):
        return float("nan")
    if math.isinf(x) or math.isinf(y):
        return math.copysign(float("inf"), math.copysign(1, x) * math.copysign(1, y))
    return math.copysign(1.0, math.copysign(1, x) * math.copysign(1, y)) * min(abs(x) * abs(y), 1e300)


def divide(x, y):
    if math.isnan(x) or math.isnan(y) or (x == 0 and y == 0) or (math.isinf(x) and math.isinf(y)):
        return float("nan")
    if y == 0:
        return math.copysign(float("inf"), math.copysign(1, x) * math.copysign(1, y))
    try:
        return x / y
    except OverflowError:
        return math.copysign(float("inf"), x * y)


def to_int(x, low, high):
    if math.isnan(x):
        return 0
    return low if x <= low else high if x >= high else int(x)


class Break(Exception):
    pass


class Return(Exception):
    pass


class Parser:
    def __init__(self, text):
        self.tokens, at = [], 0
        text = text.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise SyntaxError(text[at : at + 40])
            at = match.end()
            if match.lastgroup != "comment":
                self.tokens.append((match.lastgroup, match.group(match.lastgroup)))
        self.tokens.append(("end", ""))
        self.at = 0

    def peek(self):
        return self.tokens[self.at][1]

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, text):
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def expect(self, text):
        if not self.accept(text):
            raise SyntaxError(f"{text} expected, {self.tokens[self.at:self.at + 5]}")

    def block(self, ends):
        out = []
        while self.peek() not in ends:
            if self.accept(";"):
                continue
            out.append(self.statement())
        return out

    def statement(self):
        word = self.peek()
        if word == "declare":
            self.next()
            name = self.next()[1]
            while self.peek() not in (";", "", "declare"):
                self.next()
            return ("declare", name)
        if word == "if":
            self.next()
            arms = [(self.expr(), self.then())]
            other = []
            while True:
                if self.accept("elsif"):
                    arms.append((self.expr(), self.then()))
                elif self.accept("else"):
                    other = self.block(("endif",))
                else:
                    self.expect("endif")
                    return ("if", arms, other)
        if word == "for":
            self.next()
            name = self.next()[1]
            self.expect("in")
            first = self.expr()
            self.expect(":")
            last = self.expr()
            self.expect("do")
            body = self.block(("endfor",))
            self.expect("endfor")
            return ("for", name, first, last, body)
        if word == "break":
            self.next()
            return ("break",)
        if word == "return":
            self.next()
            return ("return", self.expr())
        target = self.expr()
        for op in ("=", "+=", "-="):
            if self.accept(op):
                if self.peek() == "lambda":
                    return self.function(target)
                return ("set", op, target, self.expr())
        return ("expr", target)

    def then(self):
        self.expect("then")
        return self.block(("elsif", "else", "endif"))

    def function(self, target):
        self.next()
        self.expect("(")
        names = []
        while not self.accept(")"):
            names.append(self.next()[1])
            self.accept(",")
        self.expect("(")
        if self.peek() in ("declare", "if"):
            body = self.block((")",))
        else:
            body = [("return", self.expr())]
        self.expect(")")
        return ("lambda", target[1], names, body)

    LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!=", "<>"], ["<", ">", "<=", ">="], ["<<", ">>"], ["+", "-"], ["*", "/", "%"], ["**"]]

    def expr(self):
        test = self.level(0)
        if self.accept("?"):
            yes = self.expr()
            self.expect(":")
            return ("?", test, yes, self.expr())
        return test

    def level(self, n):
        if n == len(self.LEVELS):
            return self.unary()
        left = self.level(n + 1)
        while self.peek() in self.LEVELS[n]:
            op = self.next()[1]
            left = ("bin", op, left, self.level(n + 1))
        return left

    def unary(self):
        if self.peek() in ("!", "~", "-", "+"):
            return ("un", self.next()[1], self.unary())
        return self.postfix(self.primary())

    def primary(self):
        kind, text = self.next()
        if kind == "num":
            return ("num", number(text))
        if kind == "cast":
            self.expect("(")
            inner = self.expr()
            self.expect(")")
            width, to = text.split("'")
            return ("cast", int(width), to, inner)
        if text == "(":
            inner = self.expr()
            self.expect(")")
            return inner
        if text == "{":
            parts = [self.expr()]
            while self.accept(","):
                parts.append(self.expr())
            self.expect("}")
            return ("cat", parts)
        if kind == "id":
            return ("id", text)
        raise SyntaxError(f"{text} in an expression")

    def postfix(self, inner):
        while True:
            if self.accept("."):
                inner = ("as", self.next()[1], inner)
            elif self.accept("("):
                arguments = []
                while not self.accept(")"):
                    arguments.append(self.expr())
                    self.accept(",")
                inner = ("call", inner[1], arguments)
            elif self.accept("["):
                first = self.expr()
                if self.accept(":"):
                    inner = ("slice", inner, first, self.expr())
                elif self.accept("+:"):
                    inner = ("width", inner, first, self.expr())
                else:
                    inner = ("index", inner, first)
                self.expect("]")
            else:
                return inner


def number(text):
    width, kind = 32, "I"
    sized = "'" in text
    if "'" in text:
        width, text = text.split("'")
        width, kind = int(width), "I"
        if text[-1] in "UIB" and not text.startswith("0x"):
            text, kind = text[:-1], text[-1]
    elif text.endswith("ULL"):
        text, width, kind = text[:-3], 64, "U"
    elif text.endswith("LL"):
        text, width, kind = text[:-2], 64, "I"
    elif text.endswith("U"):
        text, kind = text[:-1], "U"
    if "." in text or (text.endswith("F") and not text.startswith("0x")):
        if text.endswith("F"):
            return from_float(float(text[:-1]), 32)
        return from_float(float(text), width if sized else 64)
    value = int(text, 0)
    if value >> width:
        width = 64
    return V(value, width, kind)


def split(name):
    """A type's kind and width, as in `u32`."""
    return {"u": "U", "i": "I", "f": "F", "b": "B"}[name[0]], int(name[1:])


PARSED = {}


def parse(text):
    if text not in PARSED:
        PARSED[text] = Parser(text).block(("",))
    return PARSED[text]


class Machine:
    """Variables of one lane. `call` evaluates another operation by its name."""

    def __init__(self, variables, call=None, memory=None, denorm=None):
        self.env, self.call_op, self.memory = variables, call, memory
        self.assigned = set()
        self.lambdas = {}
        self.toward_zero = False
        self.denorm = denorm

    def run(self, text):
        self.block(parse(text))
        return self.env

    def block(self, statements):
        for s in statements:
            self.statement(s)

    def statement(self, s):
        if s[0] == "set":
            value = self.eval(s[3])
            if s[1] != "=":
                value = self.binary(s[1][0], self.eval(s[2]), value)
            self.assign(s[2], value)
        elif s[0] == "if":
            for test, body in s[1]:
                if self.eval(test).bits:
                    return self.block(body)
            self.block(s[2])
        elif s[0] == "for":
            for k in range(self.eval(s[2]).value, self.eval(s[3]).value + 1):
                self.env[s[1]] = V(k, 32, "I")
                try:
                    self.block(s[4])
                except Break:
                    break
        elif s[0] == "break":
            raise Break
        elif s[0] == "return":
            raise Return(self.eval(s[1]))
        elif s[0] == "lambda":
            self.lambdas[s[1]] = (s[2], s[3])
        elif s[0] == "declare":
            self.env.setdefault(s[1], V(0, 64, "B"))
        elif s[0] == "expr":
            self.eval(s[1])

    def assign(self, target, value):
        kind = target[0]
        if kind == "id":
            name = target[1]
            self.assigned.add(name)
            if name == "ROUND_MODE":
                self.toward_zero = value.bits == 1
                return
            old = self.env.get(name)
            if isinstance(old, V) and name in ("VCC", "EXEC", "D0", "SCC", "PC"):
                value = V(self.extended(value, old.width), old.width, old.kind)
            self.env[name] = value
        elif kind == "as":
            to, width = split(target[1])
            bits = self.converted(value, width, to)
            inner = target[2]
            if inner[0] == "index" and inner[1] == ("id", "MEM"):
                self.memory.write(self.eval(inner[2]).bits, bits, width // 8)
                return
            if inner[0] == "id":
                old = self.env.get(inner[1], V(0, 64, "B"))
                self.assigned.add(inner[1])
                keep = old.bits if old.width > width else 0
                full = max(old.width, width)
                mask = (1 << width) - 1
                self.env[inner[1]] = V(keep & ~mask | bits & mask, full, "B" if full > width else to)
            else:
                self.assign(inner, V(bits, width, to))
        elif kind in ("slice", "width", "index"):
            if kind == "index" and target[1][0] == "index":
                self.lane_write(target, value)
                return
            if kind == "index" and target[1] == ("id", "SGPR"):
                self.env["SGPR"][self.eval(target[2]).bits] = value.bits
                return
            if kind == "index" and isinstance(self.env.get(target[1][1]), list):
                self.env[target[1][1]][self.eval(target[2]).bits] = value
                return
            if kind == "index":
                first = last = self.eval(target[2]).value
            elif kind == "slice":
                last, first = self.eval(target[2]).value, self.eval(target[3]).value
            else:
                first = self.eval(target[2]).value
                last = first + self.eval(target[3]).value - 1
            base = target[1]
            while base[0] == "as":
                base = base[2]
            old = self.env.get(base[1], V(0, 64, "B"))
            self.assigned.add(base[1])
            width = last - first + 1
            mask = ((1 << width) - 1) << first
            full = max(old.width, last + 1)
            self.env[base[1]] = V(old.bits & ~mask | value.bits << first & mask, full, old.kind if old.kind != "F" else "B")
        elif kind == "cat":
            at = 0
            for part in reversed(target[1]):
                width = split(part[1])[1]
                self.assign(part, V(value.bits >> at, width, split(part[1])[0]))
                at += width
        else:
            raise SyntaxError(target)

    def lane_write(self, target, value):
        lane, register = self.eval(target[1][2]).bits, self.eval(target[2]).bits
        self.env["VGPR"][lane][register] = value.bits
        self.env.setdefault("WRITTEN", {})[(lane, register)] = value.bits

    def extended(self, value, width):
        return value.value & ((1 << width) - 1) if value.kind == "I" else value.bits

    def converted(self, value, width, to):
        if value.kind == "F" and to == "F":
            return to_width(value, width, self.toward_zero).bits
        return self.extended(value, width)

    def eval(self, e):
        kind = e[0]
        if kind == "num":
            return e[1]
        if kind == "id":
            return self.name(e[1])
        if kind == "as":
            if e[2][0] == "index" and e[2][1] == ("id", "MEM"):
                to, width = split(e[1])
                return V(self.memory.read(self.eval(e[2][2]).bits, width // 8), width, to)
            if e[2] == ("id", "DENORM"):
                return ("denorm", split(e[1])[1])
            inner = self.eval(e[2])
            to, width = split(e[1])
            if to == "F" and inner.kind == "F":
                return to_width(inner, width)
            return V(self.extended(inner, width), width, to)
        if kind == "cast":
            inner = self.eval(e[3])
            if isinstance(inner, Power):
                return inner
            if e[2] == "F" and inner.kind == "F":
                return to_width(inner, e[1])
            return V(self.extended(inner, e[1]), e[1], e[2])
        if kind == "un":
            return self.unary(e[1], e[2])
        if kind == "bin":
            if e[1] in ("&&", "||"):
                left = bool(self.eval(e[2]).bits)
                if left == (e[1] == "||"):
                    return V(left, 1, "U")
                return V(bool(self.eval(e[3]).bits), 1, "U")
            return self.binary(e[1], self.eval(e[2]), self.eval(e[3]))
        if kind == "?":
            return self.eval(e[2] if self.eval(e[1]).bits else e[3])
        if kind == "cat":
            bits = width = 0
            for part in map(self.eval, e[1]):
                bits, width = bits << part.width | part.bits, width + part.width
            return V(bits, width, "B")
        if kind == "index":
            return self.index(e)
        if kind in ("slice", "width"):
            inner = self.eval(e[1])
            last = self.eval(e[2]).value
            if kind == "width":
                first, last = last, last + self.eval(e[3]).value - 1
            else:
                first = self.eval(e[3]).value
            if first > last:
                bits = [inner.bits >> k & 1 for k in range(last, first + 1)]
                return V(sum(bit << k for k, bit in enumerate(reversed(bits))), len(bits), "U")
            return V(inner.bits >> first, last - first + 1, "U" if inner.kind != "I" else "I" if False else "U")
        if kind == "call":
            return self.call(e[1], e[2])
        raise SyntaxError(e)

    def index(self, e):
        if e[1][0] == "index" and e[1][1] == ("id", "VGPR"):
            lane, register = self.eval(e[1][2]).bits, self.eval(e[2]).bits
            return V(self.env["VGPR"][lane][register], 32, "B")
        if e[1] == ("id", "SGPR"):
            return V(self.env["SGPR"][self.eval(e[2]).bits], 32, "B")
        if e[1][0] == "id" and isinstance(self.env.get(e[1][1]), list):
            return self.env[e[1][1]][self.eval(e[2]).bits]
        inner = self.eval(e[1])
        return V(inner.bits >> self.eval(e[2]).value, 1, "U")

    def name(self, name):
        if name == "INF":
            return from_float(float("inf"), 64)
        if name == "NAN":
            return from_float(float("nan"), 64)
        if name == "PI":
            return from_float(math.pi, 64)
        if name == "ROUND_TOWARD_ZERO":
            return V(1, 32, "U")
        if name in ("ROUND_NEAREST_EVEN", "ROUND_MODE"):
            return V(0, 32, "U")
        return self.env[name]

    def unary(self, op, inner):
        v = self.eval(inner)
        if op == "!":
            return V(not v.bits, 1, "U")
        if op == "~":
            return V(~v.bits, v.width, v.kind)
        if v.kind == "F":
            zero = v.bits == 0 and inner[0] == "num"
            bits = v.bits ^ (1 << (v.width - 1)) if op == "-" else v.bits
            return V(bits, v.width, "F", zero)
        return V(-v.value if op == "-" else v.value, v.width, v.kind)

    def binary(self, op, a, b):
        if isinstance(b, tuple):
            return V(self.denorm(a, b[1]), 1, "U")
        if op in ("<<", ">>"):
            n = b.value
            if n < 0:
                return V(0, a.width, a.kind)
            value = a.value
            return V(value << n if op == "<<" else value >> n, a.width, a.kind)
        if a.kind == "F" or b.kind == "F":
            return self.floats(op, a, b)
        width = max(a.width, b.width)
        kind = "I" if a.kind == b.kind == "I" else "U"
        x, y = a.value, b.value
        if op in ("+", "-", "*", "/", "%", "**"):
            value = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x // y, "%": lambda: x % y, "**": lambda: x**y}[op]()
            return V(value, width, kind)
        if op in ("&", "|", "^"):
            x, y = self.extended(a, width), self.extended(b, width)
            return V({"&": x & y, "|": x | y, "^": x ^ y}[op], width, kind)
        if "I" not in (a.kind, b.kind) or a.kind != b.kind:
            x, y = self.extended(a, width), self.extended(b, width)
        return V({"==": x == y, "!=": x != y, "<>": x != y, "<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y}[op], 1, "U")

    def floats(self, op, a, b):
        if op == "**":
            return self.power(a.value, b.value, a.width)
        width = max(v.width for v in (a, b) if v.kind == "F")
        if op in ("==", "!=") and (a.signed_zero or b.signed_zero):
            a, b = to_width(a, width), to_width(b, width)
            return V((a.bits == b.bits) == (op == "=="), 1, "U")
        x, y = a.value, b.value
        if op in ("==", "!=", "<", ">", "<=", ">="):
            return V({"==": x == y, "!=": x != y, "<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y}[op], 1, "U")
        if op == "<>":
            return V(x < y or x > y, 1, "U")
        if op == "/":
            return from_float(divide(x, y), width)
        if op == "*" and isinstance(x, tuple):
            raise SyntaxError("power")
        if op == "*":
            if math.isinf(x) or math.isinf(y) or math.isnan(x) or math.isnan(y):
                return from_float(float("nan") if x != x or y != y else special_product(x, y), width)
            negative = math.copysign(1, x) * math.copysign(1, y) < 0
            return from_fraction(Fraction(x) * Fraction(y), width, negative)
        one = from_float(1.0, width)
        b = to_width(b, width)
        if op == "-":
            b = V(b.bits ^ 1 << (width - 1), width, "F")
        return fma(to_width(a, width), one, b)

    def power(self, base, exponent, width):
        """Wide enough that a product with it rounds once: kept as a double, or clamped."""
        if base == 2.0 and exponent == int(exponent):
            return Power(int(exponent))
        raise SyntaxError("power")

    def call(self, name, arguments):
        if name in self.lambdas:
            names, body = self.lambdas[name]
            inner = Machine(dict(self.env), self.call_op, self.memory)
            inner.lambdas = self.lambdas
            inner.env.update(zip(names, map(self.eval, arguments)))
            inner.env["in"] = [V(0, 8, "B")] * 8
            try:
                inner.block(body)
            except Return as out:
                return out.args[0]
        values = [self.eval(a) for a in arguments]
        if name in FUNCTIONS:
            return FUNCTIONS[name](self, *values)
        if name.startswith(("v_", "s_")):
            return self.call_op(name, values)
        return conversion(self, name, *values)


class Power(V):
    """An exact power of two."""

    def __init__(self, exponent):
        super().__init__(0, 64, "F")
        self.exponent = exponent


def scaled(v, exponent):
    x = v.value
    if x == 0 or math.isinf(x) or math.isnan(x):
        return to_width(v, v.width)
    return from_fraction(Fraction(x) * Fraction(2) ** max(min(exponent, 5000), -5000), v.width, x < 0)


PLAIN = Machine.binary


def binary_with_powers(self, op, a, b):
    if op == "*" and isinstance(b, Power):
        return scaled(a, b.exponent)
    if op == "*" and isinstance(a, Power):
        return scaled(b, a.exponent)
    return PLAIN(self, op, a, b)


Machine.binary = binary_with_powers


def integral(f):
    def apply(_, v):
        x = v.value
        if math.isnan(x) or math.isinf(x):
            return v
        return from_fraction(Fraction(f(x)), v.width, math.copysign(1, x) < 0)

    return apply


def quiet(_, v):
    return V(v.bits | 1 << (FORMATS[v.width][3] - 1), v.width, "F")


def raw_exponent(_, v):
    _, _, e, m = FORMATS[v.width]
    return V(v.bits >> m & ((1 << e) - 1), 32, "I")


def mantissa(_, v):
    x = v.value
    return v if x == 0 else from_fraction(Fraction(math.frexp(x)[0]), v.width)


def frexp_exponent(v):
    """What `exponent(x) - bias + 1` means for denormals and zero: the exponent of frexp."""
    return math.frexp(v.value)[1]


def fract(_, v):
    x = v.value
    if math.isnan(x) or math.isinf(x):
        return from_float(float("nan"), v.width)
    return from_fraction(Fraction(x) - math.floor(x), v.width)


def unary_math(f):
    def apply(_, v):
        try:
            return from_float(f(v.value), v.width)
        except (ValueError, OverflowError):
            return from_float(float("nan"), v.width)

    return apply


def log2(x):
    if x == 0:
        return -math.inf
    return math.log2(x)


def root(v):
    x = v.value
    if x < 0:
        return from_float(float("nan"), v.width)
    return from_float(math.sqrt(x), v.width)


def pow_(_, a, b):
    try:
        return from_float(a.value**b.value, a.width)
    except OverflowError:
        return from_float(math.inf, a.width)


def signext(_, v):
    return V(v.value if v.kind == "I" else v.bits, 64, "I") if v.kind != "I" else V(v.value, 64, "I")


def signext_from_bit(_, v, n):
    n = n.value
    if n == 0:
        return V(0, v.width, "I")
    if n >= v.width:
        return v
    bits = v.bits & ((1 << n) - 1)
    return V(bits - (1 << n) if bits >> (n - 1) else bits, v.width, "I")


FUNCTIONS = {
    "isNAN": lambda _, v: V(is_nan(v), 1, "U"),
    "isSignalNAN": lambda _, v: V(is_nan(v) and not v.bits >> (FORMATS[v.width][3] - 1) & 1, 1, "U"),
    "isQuietNAN": lambda _, v: V(is_nan(v) and v.bits >> (FORMATS[v.width][3] - 1) & 1, 1, "U"),
    "cvtToQuietNAN": quiet,
    "exponent": raw_exponent,
    "mantissa": mantissa,
    "sign": lambda _, v: V(v.bits >> (v.width - 1), 1, "U"),
    "abs": lambda _, v: V(v.bits & ~(1 << (v.width - 1)), v.width, "F"),
    "floor": integral(math.floor),
    "trunc": integral(math.trunc),
    "fract": fract,
    "isEven": lambda _, v: V(not math.isnan(v.value) and not math.isinf(v.value) and math.fmod(v.value, 2) == 0, 1, "U"),
    "sqrt": lambda _, v: root(v),
    "log2": unary_math(log2),
    "sin": unary_math(math.sin),
    "cos": unary_math(math.cos),
    "pow": pow_,
    "fma": lambda _, a, b, c: fma(a, b, c),
    "ldexp": lambda _, v, n: scaled(v, n.value),
    "signext": signext,
    "signext_from_bit": signext_from_bit,
    "nop": lambda _: V(0, 1, "U"),
    "CalcDsAddr": lambda self, address, *_: V(address.bits + self.env["OFFSET"].bits * self.env["ADD_OFFSET"], 64, "U"),
}


def norm(v, low, scale):
    x = v.value
    x = low if math.isnan(x) and low == 0 else 0.0 if math.isnan(x) else max(low, min(1.0, x))
    return round(Fraction(x) * scale)


def conversion(self, name, v):
    source, target = name.split("_to_")
    if target == "snorm":
        return V(norm(v, -1.0, 32767), 16, "I")
    if target == "unorm":
        return V(norm(v, 0.0, 65535), 16, "U")
    to, width = split(target)
    if to == "F":
        if v.kind == "F":
            return to_width(v, width, self.toward_zero)
        return from_fraction(Fraction(v.value), width)
    low, high = (0, (1 << width) - 1) if to == "U" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    if v.kind == "F":
        return V(to_int(v.value, low, high), width, to)
    # Between integers: packing saturates, widening doesn't need to.
    return V(max(low, min(high, v.value)), width, to)
