#!/usr/bin/env python3
"""A prologue in machine code at the entry of kernels of a CUBIN: the study's patch.

    tools/sass_study/cubin.py KERNELS.cubin TWIN.ptx OUT.cubin [--variant replace|symbol|front] [--only NAME,...]

In goes a CUBIN for sm_90 that nvcc made from kernels of our own. Out comes one whose kernels have one hidden parameter more, of
64 bytes, and a prologue. Both are those of twins (`reef-ptx/src/twin/guard.rs`): the prologue's text is taken from TWIN.ptx, which
is any twin. ptxas compiles it, once for each size of parameters. Needs ptxas; no GPU.

| variant | entry | body |
|---|---|---|
| replace | first instruction becomes a branch to the prologue behind the body | that instruction runs at the prologue's end |
| symbol | the kernel's symbol points to the prologue behind the body | untouched |
| front | the prologue lies before the body and runs into it | moved; offsets in tables are moved with it |

Not general: files are rebuilt with the sections, symbols and attributes that nvcc 13.0 and ptxas 12.9 write. Anything else raises.
"""

import argparse
import functools
import os
import struct
import subprocess
import tempfile

HIDDEN = 64  # bytes of the hidden parameter
ENTRY = 0x10  # st_other of a kernel's symbol
NVINFO = 0x70000000
PARAMETERS = {90: 0x210}  # where parameters begin in constant bank 0
FIRST = bytes.fromhex("827b01ff000a0000")  # LDC R1, c[0x0][0x28] without its control bits
BRANCH, TRIGGER, EXIT, NOP, LOAD = 0x947, 0x801, 0x94D, 0x918, 0xB82
WAIT_ALL = 0x3F << 52  # wait mask of the control bits: all six scoreboards

# Attributes of .nv.info, as this study uses them.
REGISTERS, BARRIERS, PARAMETER, PARAMETER_SIZE, PARAMETER_BANK, EXITS, CALL_STACK = 0x2F, 0x4C, 0x17, 0x19, 0x0A, 0x1C, 0x1E
INDIRECT_BRANCHES = 0x34
OFFSET_LISTS = {EXITS, 0x28, 0x31}  # exits, cooperative groups' instructions, warp-wide instructions

PROLOGUE = """.version 8.0
.target sm_%(arch)d
.address_size 64
.visible .entry reef_prologue(%(own)s.param .align 8 .b8 $reef[64])
{
%(text)s
	@%%reefp1 exit;
	pmevent 7;
	exit;
}
"""  # `pmevent` marks the place where the block runs on; no machine code of it is left.
BEGIN, END = "\t.reg .pred %reefp<4>;\n", "\t@%reefp1 ret;\n"


def prologue_text(twin):
    """The prologue of the text of a twin."""
    with open(twin) as file:
        text = file.read()
    return text[text.index(BEGIN) : text.index(END)]


class Section:
    def __init__(self, fields, name, data):
        (_, self.kind, self.flags, self.address, self.offset, self.size, self.link, self.info, self.align, self.entry) = fields
        self.name_at, self.name, self.data = fields[0], name, data


class Cubin:
    """Sections, symbols and program headers of a CUBIN. `bytes` lays them out again."""

    def __init__(self, data):
        if data[:4] != b"\x7fELF" or struct.unpack_from("<H", data, 18)[0] != 190:
            raise ValueError("not a CUBIN")
        self.header = bytearray(data[:64])
        at, count, names = (struct.unpack_from(f, data, o)[0] for f, o in (("<Q", 40), ("<H", 60), ("<H", 62)))
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, at + 64 * i) for i in range(count)]
        text = data[rows[names][4] :]
        self.sections = []
        for row in rows:
            name = text[row[0] : text.index(b"\0", row[0])].decode()
            self.sections.append(Section(row, name, bytearray(b"" if row[1] in (0, 8) else data[row[4] : row[4] + row[5]])))
        first, number = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
        self.headers = [list(struct.unpack_from("<IIQQQQQQ", data, first + 56 * i)) for i in range(number)]
        self.headers_at = first
        self.by_name = {s.name: s for s in self.sections}
        self.symbols = self.by_name[".symtab"]
        self.new_layout = self.header[8] >= 8  # ABI version 8: CUDA 13

    def symbol(self, index):
        """(name, info, other, section, value, size)"""
        name, info, other, section, value, size = struct.unpack_from("<IBBHQQ", self.symbols.data, 24 * index)
        strings = self.by_name[".strtab"].data
        return bytes(strings[name : strings.index(b"\0", name)]).decode(), info, other, section, value, size

    def set_symbol(self, index, value, size):
        struct.pack_into("<QQ", self.symbols.data, 24 * index + 8, value, size)

    def kernels(self):
        """name -> index of the symbol"""
        found = {}
        for index in range(len(self.symbols.data) // 24):
            name, info, other, section, *_ = self.symbol(index)
            if info & 15 == 2 and other & ENTRY and section:
                found[name] = index
        return found

    def bytes(self, programs="mended"):
        """The file. Program headers are mended, or left as they were, or left out, to see if the driver reads them."""
        at, moved = 64, {}
        for section in sorted(self.sections[1:], key=lambda s: s.offset):
            at += -at % max(section.align, 1)
            moved[id(section)] = at
            if section.kind != 8:
                section.size = len(section.data)
                at += section.size
        headers = {"mended": [self._moved(h, moved) for h in self.headers], "old": [list(h) for h in self.headers], "none": []}[programs]
        out = bytearray(at + -at % 64)
        for section in self.sections[1:]:
            if section.kind != 8:
                out[moved[id(section)] : moved[id(section)] + section.size] = section.data
        sections_at = len(out)
        for index, s in enumerate(self.sections):
            place = moved[id(s)] if index else 0
            row = (s.name_at, s.kind, s.flags, s.address, place, s.size, s.link, s.info, s.align, s.entry)
            out += struct.pack("<IIQQQQIIQQ", *row)
        programs_at = len(out)
        for header in headers:
            if header[2] is None:
                header[2] = programs_at
            out += struct.pack("<IIQQQQQQ", *header)
        out[:64] = self.header
        struct.pack_into("<QQ", out, 32, programs_at if headers else 0, sections_at)
        struct.pack_into("<H", out, 56, len(headers))
        return bytes(out)

    def _moved(self, header, moved):
        kind, flags, offset, virtual, physical, file, memory, align = header
        if offset == self.headers_at:
            return [kind, flags, None, virtual, physical, file, memory, align]
        inside = [
            s for s in self.sections[1:]
            if s.kind != 8 and s.flags & 2 and s.old_size and offset <= s.offset and s.offset + s.old_size <= offset + file
        ]  # fmt: skip
        if not inside:
            nobits = [moved[id(s)] for s in self.sections[1:] if s.kind == 8 and s.offset >= offset]
            return [kind, flags, min(nobits, default=offset), virtual, physical, file, memory, align]
        first = min(moved[id(s)] for s in inside)
        size = max(moved[id(s)] + s.size for s in inside) - first
        return [kind, flags, first, virtual, physical, size, size + memory - file, align]


def read(path):
    with open(path, "rb") as file:
        cubin = Cubin(file.read())
    for section in cubin.sections:
        section.old_size = section.size
    return cubin


def attributes(data):
    """List of [format, attribute, value or bytes]."""
    at, found = 0, []
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4:
            value, at = bytes(data[at : at + value]), at + value
        found.append([form, attribute, value])
    return found


def packed(found):
    out = bytearray()
    for form, attribute, value in found:
        if form == 4:
            out += struct.pack("<BBH", form, attribute, len(value)) + value
        else:
            out += struct.pack("<BBH", form, attribute, value)
    return out


def branch(at, to, control=0x000FEA):
    """BRA from the instruction at `at`. The distance counts from the next instruction, in four bytes."""
    distance = (to - at - 16) // 4
    low = 0x7947 | (distance & 0xFF) << 16 | (distance >> 8 & (1 << 30) - 1) << 34
    return struct.pack("<QQ", low, control << 40 | 0x03800000 | distance >> 38 & 0x3FFFF)


def waits_for_all(instruction):
    low, high = struct.unpack("<QQ", instruction)
    return struct.pack("<QQ", low, high | WAIT_ALL)


NO_OPERATION = struct.pack("<QQ", 0x7918, 0x000FC00000000000)


class Prologue:
    """Machine code up to the mark, with what its tables say."""

    def __init__(self, cubin):
        (index,) = cubin.kernels().values()
        text = cubin.by_name[".text.reef_prologue"]
        opcodes = [struct.unpack_from("<H", text.data, at)[0] & 0xFFF for at in range(0, len(text.data), 16)]
        self.mark = 16 * opcodes.index(TRIGGER)
        if opcodes[self.mark // 16 + 1] != EXIT or opcodes[0] != LOAD:
            raise ValueError("prologue: must end with its mark")
        self.code = NO_OPERATION + bytes(text.data[16 : self.mark])  # R1 is loaded at the end
        own = attributes(cubin.by_name[".nv.info.reef_prologue"].data)
        self.lists = {a: [o for (o,) in struct.iter_unpack("<I", v) if o < self.mark] for _, a, v in own if a in OFFSET_LISTS}
        self.registers = registers(cubin, index)
        others = {a for _, a, _ in own} - OFFSET_LISTS
        if not others <= {0x37, PARAMETER, 0x50, 0x1B, BARRIERS, 0x5F, PARAMETER_SIZE, PARAMETER_BANK, CALL_STACK, 0x36}:
            raise ValueError(f"prologue: unknown attributes {others}")


def registers(cubin, index):
    for form, attribute, value in attributes(cubin.by_name[".nv.info"].data):
        if attribute == REGISTERS and struct.unpack_from("<I", value)[0] == index:
            return struct.unpack_from("<I", value, 4)[0]
    raise ValueError("no register count")


@functools.cache
def prologue(text, size, arch, ptxas):
    with tempfile.TemporaryDirectory() as work:
        source, made = os.path.join(work, "p.ptx"), os.path.join(work, "p.cubin")
        with open(source, "w") as file:
            file.write(PROLOGUE % {"arch": arch, "text": text, "own": f".param .align 8 .b8 own[{size}], " if size else ""})
        subprocess.run([ptxas, f"-arch=sm_{arch}", source, "-o", made], check=True)
        return Prologue(read(made))


# Steps of the patch that the study leaves out on purpose, to see what the driver reads.
STEPS = ("size", "parameter", "bank", "exits", "barriers", "registers")


def patch(cubin, name, text_of_prologue, variant="replace", ptxas="ptxas", skip=frozenset()):
    """Adds prologue and hidden parameter to one kernel. Returns what changed."""
    index = cubin.kernels()[name]
    _, _, _, number, value, size = cubin.symbol(index)
    text, info = cubin.sections[number], cubin.by_name[".nv.info." + name]
    arch = 90
    if any(a == INDIRECT_BRANCHES for _, a, _ in attributes(info.data)) and variant == "front":
        raise ValueError(f"{name}: a jump table has places in the body")
    if value or bytes(text.data[:8]) != FIRST:
        raise ValueError(f"{name}: first instruction {bytes(text.data[:8]).hex()}")
    found = attributes(info.data)
    own = next((v for _, a, v in found if a == PARAMETER_SIZE), 0)
    own_to = own + -own % 8
    added = prologue(text_of_prologue, own_to, arch, ptxas)
    begin = _place(cubin, text, added, variant, index, name)
    if "size" not in skip and variant != "front":
        _, _, _, _, value, size = cubin.symbol(index)
        if size == text.old_size:
            cubin.set_symbol(index, value, len(text.data) - value)
    if "parameter" not in skip:
        _add_parameter(cubin, found, name, own_to)
    if "bank" not in skip:
        bank = cubin.by_name[".nv.constant0." + name]
        bank.data += bytes(PARAMETERS[arch] + own_to + HIDDEN - len(bank.data))
    if "exits" not in skip:
        _add_offsets(found, added, begin)
    if "barriers" not in skip:
        _use_barrier(cubin, text, found)
    before = registers(cubin, index)
    if "registers" not in skip:
        _raise_registers(cubin, text, index, max(before, added.registers))
    info.data = packed(found)
    return {"registers": (before, max(before, added.registers)), "parameters": (own, own_to + HIDDEN),
            "text": (text.old_size, len(text.data)), "prologue": len(added.code)}  # fmt: skip


def _place(cubin, text, added, variant, index, name):
    first = bytes(text.data[:16])
    if variant == "front":
        shift = len(added.code) + 16
        shift += -shift % 128
        front = added.code + waits_for_all(NO_OPERATION)
        text.data = bytearray(front + NO_OPERATION * ((shift - len(front)) // 16) + text.data)
        _shift_tables(cubin, text, index, name, shift)
        return 0
    begin = len(text.data) + -len(text.data) % 128
    text.data += NO_OPERATION * ((begin - len(text.data)) // 16)
    text.data += added.code
    if variant == "replace":
        text.data[:16] = branch(0, begin)
        text.data += waits_for_all(first)  # the body waits for what this load sets, as ever
        text.data += branch(len(text.data), 16)
    elif variant == "symbol":
        text.data += waits_for_all(NO_OPERATION)
        text.data += branch(len(text.data), 0)
        cubin.set_symbol(index, begin, len(text.data) - begin)
    else:
        raise ValueError(variant)
    text.data += branch(len(text.data), len(text.data), 0x000FC0)
    text.data += NO_OPERATION * (-len(text.data) % 128 // 16)
    return begin


def _shift_tables(cubin, text, index, name, shift):
    number = cubin.sections.index(text)
    for other in range(len(cubin.symbols.data) // 24):
        _, info, _, section, value, size = cubin.symbol(other)
        if section == number and info & 15 != 3:
            cubin.set_symbol(other, value if other == index else value + shift, size + shift if other == index else size)
    relocations = cubin.by_name.get(".rela.text." + name)
    for at in range(0, len(relocations.data) if relocations else 0, 24):
        struct.pack_into("<Q", relocations.data, at, struct.unpack_from("<Q", relocations.data, at)[0] + shift)
    info = cubin.by_name[".nv.info." + name]
    found = attributes(info.data)
    for entry in found:
        if entry[1] in OFFSET_LISTS:
            entry[2] = b"".join(struct.pack("<I", o + shift) for (o,) in struct.iter_unpack("<I", entry[2]))
    info.data = packed(found)


def _add_parameter(cubin, found, name, offset):
    ordinal = sum(a == PARAMETER for _, a, _ in found)
    row = struct.pack("<IHHI", 0, ordinal, offset, HIDDEN << 18 | 0x1F000)
    first = next((i for i, e in enumerate(found) if e[1] == PARAMETER), 1)
    found.insert(first, [4, PARAMETER, row])
    for entry in found:
        if entry[1] == PARAMETER_SIZE:
            entry[2] = offset + HIDDEN
        elif entry[1] == PARAMETER_BANK:
            symbol, place = struct.unpack_from("<IH", entry[2])
            entry[2] = struct.pack("<IHH", symbol, place, offset + HIDDEN)
    if not any(a == PARAMETER_BANK for _, a, _ in found):
        bank = cubin.sections.index(cubin.by_name[".nv.constant0." + name])
        symbols = range(len(cubin.symbols.data) // 24)
        symbol = next(i for i in symbols if cubin.symbol(i)[3] == bank and cubin.symbol(i)[1] & 15 == 3)
        found.append([3, PARAMETER_SIZE, offset + HIDDEN])
        found.append([4, PARAMETER_BANK, struct.pack("<IHH", symbol, PARAMETERS[90], offset + HIDDEN)])


def _add_offsets(found, added, begin):
    for attribute, offsets in added.lists.items():
        extra = b"".join(struct.pack("<I", begin + o) for o in offsets)
        entry = next((e for e in found if e[1] == attribute), None)
        if entry:
            entry[2] += extra
        else:
            found.append([4, attribute, extra])
    if not any(a == CALL_STACK for _, a, _ in found):
        found.append([4, CALL_STACK, bytes(4)])


def _use_barrier(cubin, text, found):
    if cubin.new_layout:
        if not any(a == BARRIERS for _, a, _ in found):
            at = next(i for i, e in enumerate(found) if e[1] == EXITS)
            found.insert(at, [2, BARRIERS, 1])
    elif not text.flags >> 20 & 0x7F:
        text.flags |= 1 << 20


def _raise_registers(cubin, text, index, count):
    table = cubin.by_name[".nv.info"]
    found = attributes(table.data)
    for entry in found:
        if entry[1] == REGISTERS and struct.unpack_from("<I", entry[2])[0] == index:
            entry[2] = struct.pack("<II", index, count)
    table.data = packed(found)
    if not cubin.new_layout:
        text.info = text.info & 0xFFFFFF | count << 24


def main():
    parser = argparse.ArgumentParser(description="add the prologue to kernels of a CUBIN")
    parser.add_argument("cubin")
    parser.add_argument("twin")
    parser.add_argument("out")
    parser.add_argument("--variant", default="replace", choices=("replace", "symbol", "front"))
    parser.add_argument("--only", default="")
    parser.add_argument("--ptxas", default="ptxas")
    args = parser.parse_args()
    cubin = read(args.cubin)
    for name in args.only.split(",") if args.only else sorted(cubin.kernels()):
        print(name, patch(cubin, name, prologue_text(args.twin), args.variant, args.ptxas))
    with open(args.out, "wb") as file:
        file.write(cubin.bytes())


if __name__ == "__main__":
    main()
