"""Tables of the corpus: `tables.py FOLDER PTXAS RESULTS`, after the example `corpus` has written FOLDER/table.tsv."""
import collections
import concurrent.futures
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

# Variants of a large corpus take an hour to assemble: this many are drawn, always the same.
MAX_ASSEMBLED = 700
COLUMNS = ["file", "kernel", "instructions", "stop", "slice", "abandon", "rerun", "cause", "line", "looks", "variant"]


def read(path):
    rows, errors = [], []
    for line in open(path):
        fields = line.rstrip("\n").split("\t")
        if fields[1] == "!":
            errors.append(fields)
        else:
            rows.append(dict(zip(COLUMNS, fields)))
    return rows, errors


def group(row):
    return os.path.basename(row["file"]).split("-")[0].split(".")[0]


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---" + "|--:" * (len(header) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def counts(rows, key):
    return collections.Counter(row[key] for row in rows).most_common()


def target(path):
    return re.search(r"^\.target\s+sm_(\d+[af]?)", open(path).read(), re.M).group(1)


def assemble(ptxas, path, arch=None):
    """Registers, spilled bytes, instructions without padding; a text if ptxas refuses."""
    own = target(path)
    arch = arch or (own if not own.isdigit() or int(own) > 90 else "90")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as out:
        made = subprocess.run([ptxas, "-v", f"-arch=sm_{arch}", "-o", out.name, path], capture_output=True, text=True)
        if made.returncode != 0:
            return (made.stderr or made.stdout).strip().splitlines()[0]
        registers = int(re.search(r"Used (\d+) registers", made.stderr).group(1))
        spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill stores", made.stderr))
        return registers, spilled, instructions(open(out.name, "rb").read())


def instructions(elf):
    """Number of instructions in all .text sections, 16 bytes each, without NOPs."""
    offset, = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    section = lambda at: struct.unpack_from("<IIQQQQ", elf, offset + at * size)
    strings = section(names)[4]
    total = 0
    for at in range(count):
        name, _, _, _, start, length = section(at)
        if elf[strings + name:].startswith(b".text."):
            words = struct.iter_unpack("<QQ", elf[start:start + length])
            total += sum(word & 0xFFF != 0x918 for word, _ in words)
    return total


def blocks(registers, threads=256):
    """Blocks of 256 threads that registers leave room for on one multiprocessor."""
    per_warp = -(-registers * 32 // 256) * 256
    return 65536 // (per_warp * (threads // 32))


def costs(rows, ptxas):
    with_variant = [row for row in rows if row["variant"]]
    drawn = with_variant if len(with_variant) <= MAX_ASSEMBLED else random.Random(1).sample(with_variant, MAX_ASSEMBLED)
    def both(row):
        return row, assemble(ptxas, row["variant"].removesuffix(".ptx") + ".alone"), assemble(ptxas, row["variant"])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(both, drawn)), len(with_variant)


def looks(rows, ptxas):
    """Tables of variants with looks, for each architecture against the kernel alone and its variant."""
    some = [row for row in rows if row["variant"] and row["looks"] != "0"]
    more = sum(row["looks"] != "1" for row in some)
    out = [f"{len(some)} kernels have looks, {more} of them more than one."]
    for arch in ("80", "90"):
        fit = [row for row in some if target(row["variant"]).isdigit() and int(target(row["variant"])) <= int(arch)]
        if arch == "90":
            fit += [row for row in some if target(row["variant"]) == "90a"]
        own = lambda row: "90a" if target(row["variant"]) == "90a" else arch
        stem = lambda row: row["variant"].removesuffix(".ptx")
        all_three = lambda row: [assemble(ptxas, stem(row) + end, own(row)) for end in (".alone", ".ptx", ".looks")]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            made = list(pool.map(all_three, fit))
        refused = [(row, texts) for row, texts in zip(fit, made) if isinstance(texts[2], str)]
        good = [(row, texts) for row, texts in zip(fit, made) if not any(isinstance(text, str) for text in texts)]
        against = lambda base, at: percentiles([texts[2][at] - texts[base][at] for _, texts in good])
        out += ["", f"{len(good)} variants with looks assembled for sm_{arch}; ptxas refused {len(refused)}.", ""]
        out += [f"    {row['kernel']}: {texts[2]}" for row, texts in refused[:20]]
        out += [markdown([f"with looks, sm_{arch}", "against the kernel: min / p50 / p90 / max", "against the variant"],
                         [[name, against(0, at), against(1, at)]
                          for at, name in enumerate(("registers", "bytes of spills", "instructions"))]), ""]
        fewer = [row for row, texts in good if blocks(texts[2][0]) < blocks(texts[0][0])]
        by_variant = sum(blocks(texts[1][0]) < blocks(texts[0][0]) for _, texts in good)
        out += [f"Less occupancy by registers, blocks of 256 threads: {len(fewer)} of {len(good)}, and {by_variant} of their variants "
                f"without looks. More spills than the kernel: {sum(texts[2][1] > texts[0][1] for _, texts in good)}.", ""]
        out += [f"    {row['kernel'][:60]} ({group(row)}): registers {texts[0][0]} -> {texts[1][0]} -> {texts[2][0]}, "
                f"spills {texts[0][1]} -> {texts[2][1]}, instructions {texts[0][2]} -> {texts[1][2]} -> {texts[2][2]}"
                for row, texts in good if row in fewer or texts[2][1] > texts[0][1] or group(row) == "triton"]
    return out


def percentiles(values):
    values = sorted(values)
    at = lambda part: values[min(len(values) - 1, int(part * len(values)))]
    return f"{values[0]:+} / {at(0.5):+} / {at(0.9):+} / {values[-1]:+}"


def main():
    folder, ptxas, results = sys.argv[1:]
    rows, errors = read(f"{folder}/table.tsv")
    total = sum(int(row["instructions"]) for row in rows)
    out = [f"{len(rows)} kernels, {total:,} instructions; {len(errors)} texts were not read.", ""]
    out += [f"    {' '.join(error)}" for error in errors]
    by_group = collections.defaultdict(list)
    for row in rows:
        by_group[group(row)].append(row)
    yes = lambda rows, key: sum(row[key] == "yes" for row in rows)
    table = [[name, len(some)] + [yes(some, key) for key in ("stop", "slice", "abandon")] +
             [sum(row["rerun"] == answer for row in some) for answer in ("yes", "if distinct", "no", "unknown")]
             for name, some in sorted(by_group.items()) + [("all", rows)]]
    header = ["source", "kernels", "stop", "slice", "abandon", "idempotent", "if distinct", "no", "unknown"]
    out += [markdown(header, table), ""]
    for key, title in [("stop", "may not be stopped"), ("abandon", "may not be abandoned")]:
        refused = [row for row in rows if row[key] != "yes"]
        out += [markdown([title, "kernels"], counts(refused, key)), ""]
    for answer in ("no", "unknown"):
        some = [dict(row, cause=re.sub(r"(parameter|variable|calls|instruction) \S+( \+ \d+)?", r"\1 …", row["cause"]))
                for row in rows if row["rerun"] == answer]
        out += [markdown([f"idempotent: {answer}", "kernels"], counts(some, "cause")), ""]
    made, variants = costs(rows, ptxas)
    refused = [(row, variant) for row, alone, variant in made if isinstance(variant, str) and not isinstance(alone, str)]
    good = [(alone, variant) for _, alone, variant in made if not isinstance(alone, str) and not isinstance(variant, str)]
    alone_refused = sum(isinstance(alone, str) for _, alone, _ in made)
    version = subprocess.run([ptxas, "--version"], capture_output=True, text=True).stdout.strip().splitlines()[-2]
    out += [f"{variants} variants; {len(made)} of them assembled for sm_90 with ptxas ({version}), next to the kernel alone. "
            f"ptxas refused {len(refused)} variants, and {alone_refused} kernels themselves.", ""]
    out += [f"    {row['kernel']}: {error}" for row, error in refused[:20]]
    difference = lambda at: percentiles([variant[at] - alone[at] for alone, variant in good])
    out += [markdown(["variant against kernel", "min / p50 / p90 / max"], [
        ["registers", difference(0)], ["bytes of spills", difference(1)], ["instructions", difference(2)],
    ]), "", f"Less occupancy by registers, blocks of 256 threads: {sum(blocks(t[0]) < blocks(a[0]) for a, t in good)} of {len(good)}.",
        f"More spills: {sum(t[1] > a[1] for a, t in good)}."]
    out += ["", *looks(rows, ptxas)]
    text = "\n".join(out) + "\n"
    print(text)
    open(f"{results}/table.md", "w").write(text)
    with open(f"{results}/kernels.txt", "w") as file:
        for row in rows:
            name = os.path.basename(row["file"])
            kernel = row["kernel"] if len(row["kernel"]) <= 80 else row["kernel"][:77] + "..."
            file.write(f"{name} {kernel} stop={row['stop']} slice={row['slice']} abandon={row['abandon']} "
                       f"idempotent={row['rerun']} {row['cause']}\n".replace("  ", " "))


main()
