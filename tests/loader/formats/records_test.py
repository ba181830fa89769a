#!/usr/bin/env python3
"""records_test.py GX_RECORDS: its shards read by readers of Python, and Python's shards read by it.

The readers and writers here know the formats from their descriptions; they share no code with gx.
"""
import io, json, os, pathlib, random, struct, subprocess, sys, tarfile, tempfile, zlib

PROGRAM = sys.argv[1]
MAGIC = struct.pack("<I", 0xCED7230A)
failures = []


def expect(what, found, expected):
    if found != expected:
        failures.append(what)
        print(f"FAILED: {what}\n    found    {found!r:.400}\n    expected {expected!r:.400}")


def run(*words, status=0):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    expect(f"status of {' '.join(map(str, words))}: {done.stderr}", done.returncode, status)
    return done


def counts(path):
    """(samples, corrupt) of a report."""
    report = json.loads(path.read_text())
    return report["samples"], report["corrupt"]


# ---- Formats --------------------------------------------------------------------------------
def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def read_recordio(data):
    """(offset, label, id, image) of each record."""
    at, found = 0, []
    while at < len(data):
        begin, parts = at, []
        while True:
            magic, word = struct.unpack_from("<II", data, at)
            assert magic == 0xCED7230A, at
            kind, size = word >> 29, word & (1 << 29) - 1
            assert kind in ((2, 3) if parts else (0, 1)), at
            parts.append(data[at + 8:at + 8 + size])
            at += 8 + (size + 3) // 4 * 4
            if kind in (0, 3):
                break
        record = MAGIC.join(parts)
        flag, label, number, _ = struct.unpack_from("<IfQQ", record)
        assert flag == 0
        found.append((begin, label, number, record[24:]))
    return found


def fields(message):
    """(number, value) of each field of a protocol buffer: bytes, or a whole number."""
    at, found = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        value = varint()
        if key & 7 == 2:
            value, at = message[at:at + value], at + value
        found.append((key >> 3, value))
    return found


def read_tfrecord(data):
    """{key: first value} of each example."""
    at, found = 0, []
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        assert masked(data[at:at + 8]) == data[at + 8:at + 12], at
        example = data[at + 12:at + 12 + size]
        assert masked(example) == data[at + 12 + size:at + 16 + size], at
        at += 16 + size
        (_, features), = fields(example)
        values = {}
        for _, entry in fields(features):
            (_, key), (_, feature) = fields(entry)
            (_, of_kind), = fields(feature)
            (_, values[key.decode()]), = fields(of_kind)
        found.append(values)
    return found


def write_tar(path, samples):
    with tarfile.open(path, "w") as archive:
        for i, (label, image) in enumerate(samples):
            for ending, data in ("jpg", image), ("cls", b"%d" % label):
                info = tarfile.TarInfo(f"{'folder/' * (i % 20)}sample{i}.{ending}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def listed(*words):
    rows = [line.split("\t") for line in run("--list", *words).stdout.splitlines()]
    return [(int(label), int(offset), int(size), file, name)
            for _, label, offset, size, file, name in rows]


def png(draw):
    """20 x 18 pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 20, 18, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(18 * (b"\0" + draw.randbytes(60)))) + chunk(b"IEND", b""))


# ---- The index of torchvision's ImageFolder ----------------------------------------------------
def torchvision_order(folder):
    """(class, path below its folder), as find_classes() and make_dataset() give them."""
    found = []
    for name in sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()):
        top = os.path.join(folder, name)
        for root, _, files in sorted(os.walk(top, followlinks=True)):
            for file in sorted(files):
                if file.lower().endswith((".jpg", ".jpeg", ".png")):
                    found.append((name, os.path.relpath(os.path.join(root, file), top)))
    return found


def make_folder(folder, draw):
    for name in "tench", "Zebra", "zebra", "n01440764", "a-b", "a", "\u00e9clair":
        for _ in range(draw.randrange(1, 6)):
            below = folder / name / draw.choice(["", "x", "x-y", "x/deep"])
            below.mkdir(parents=True, exist_ok=True)
            image = b"".join(draw.choice([MAGIC, MAGIC[:2], draw.randbytes(5), draw.randbytes(400)])
                             for _ in range(draw.randrange(1, 9)))
            ending = draw.choice([".jpg", ".JPEG", ".png", ".PNG"])
            (below / f"{draw.randrange(1000)}{ending}").write_bytes(image)
        (folder / name / "notes.txt").write_text("no image")


def test(folder, draw):
    images = folder / "images"
    make_folder(images, draw)
    order = torchvision_order(images)
    classes = sorted({name for name, _ in order})
    expected = [(classes.index(name), (images / name / path).read_bytes()) for name, path in order]

    expect("a folder's order and sizes",
           [(label, size, name) for label, _, size, _, name in listed(images)],
           [(classes.index(name), (images / name / path).stat().st_size, path)
            for name, path in order])

    run("--pack", images, "--output", folder / "one", "--to", "recordio")
    records = read_recordio((folder / "one.rec").read_bytes())
    expect("records", [(label, image) for _, label, _, image in records], expected)
    expect("ids", [number for _, _, number, _ in records], list(range(len(expected))))
    expect("index", (folder / "one.idx").read_text(),
           "".join(f"{i}\t{record[0]}\n" for i, record in enumerate(records)))
    expect("list", (folder / "one.lst").read_text(),
           "".join(f"{i}\t{classes.index(name)}\t{name}/{path}\n"
                   for i, (name, path) in enumerate(order)))
    expect("classes", (folder / "one.classes.txt").read_text(), "".join(c + "\n" for c in classes))

    run("--pack", images, "--output", folder / "many", "--shards", 3, "--seed", 5)
    shards = [folder / f"many-{i:05}-of-00003.rec" for i in range(3)]
    parts = [read_recordio(shard.read_bytes()) for shard in shards]
    shuffled = [(label, image) for part in parts for _, label, _, image in part]
    expect("shuffled records", sorted(shuffled), sorted(expected))
    expect("a shuffle changes the order", shuffled == expected, False)
    expect("ids of all shards", [r[2] for part in parts for r in part], list(range(len(expected))))
    sizes = [len(part) for part in parts]
    expect("shards of like size", max(sizes) - min(sizes) <= 1, True)

    run("--pack", *shards, "--output", folder / "tf", "--to", "tfrecord", "--first-label", 0)
    expect("classes of shards", (folder / "tf.classes.txt").read_text(),
           (folder / "one.classes.txt").read_text())
    examples = read_tfrecord((folder / "tf.tfrecord").read_bytes())
    # Labels are packed: one byte here.
    expect("examples", [(e["image/class/label"][0], e["image/encoded"]) for e in examples],
           shuffled)

    run("--pack", folder / "tf.tfrecord", "--output", folder / "back")
    names = [line.split("\t")[2] for line in (folder / "back.lst").read_text().splitlines()]
    expect("names that shards have not", set(names), {""})

    (folder / "of_tar.classes.txt").write_text("one\n")
    write_tar(folder / "a.tar", expected)
    run("--pack", folder / "a.tar", "--output", folder / "of_tar", "--json", folder / "json")
    expect("of a tar", [(r[1], r[3]) for r in read_recordio((folder / "of_tar.rec").read_bytes())],
           expected)
    expect("no classes of earlier shards", (folder / "of_tar.classes.txt").exists(), False)
    with tarfile.open(folder / "a.tar") as archive:
        expect("offsets of a tar", [(offset, size, name) for _, offset, size, _, name in
                                    listed(folder / "a.tar")],
               [(m.offset_data, m.size, m.name[:-4]) for m in archive if m.name.endswith("jpg")])

    count = f"{len(expected)} images of {len(classes)} classes"
    for source in [images], shards, [folder / "tf.tfrecord"], [folder / "a.tar"]:
        done = run("--verify", *source)
        expect(f"verify {source[0]}", done.stdout.startswith(count), True)

    if len(shards) > 1:
        done = run("--verify", shards[1])
        expect("shards that were not named", f"{len(shards) - 1} of {len(shards)} shards were not "
               f"read, as they were not named, '{shards[0]}' first" in done.stderr, True)
        (folder / "some").mkdir()
        for shard in shards[:-1]:
            (folder / "some" / shard.name).write_bytes(shard.read_bytes())
        done = run("--verify", *sorted((folder / "some").iterdir()), status=1)
        expect("a shard that is not there", f"1 of {len(shards)} shards are not there, "
               f"'{folder / 'some' / shards[-1].name}' first" in done.stderr, True)
        from_1 = folder / "from-1-of-9"
        from_1.mkdir()
        for i, shard in enumerate(shards, 1):
            (from_1 / f"s-{i}-of-{len(shards)}.rec").write_bytes(shard.read_bytes())
        expect("shards from 1", run("--verify", *from_1.iterdir()).stderr, "")
        first, *others = sorted(from_1.iterdir())
        one_more = from_1 / f"s-{len(shards) + 1}-of-{len(shards)}.rec"
        one_more.write_bytes(shards[0].read_bytes())
        expect("a shard behind the last", run("--verify", first, *others).stderr,
               f"gx_records: '{one_more}' is there, although the names promise {len(shards)} "
               "shards\n")
        one_more.unlink()
        expect("shards by other paths", run(
            "--verify", folder / "some" / ".." / from_1.name / first.name, *others).stderr, "")
        done = run("--verify", first, from_1 / "." / ".." / from_1.name / first.name, status=2)
        expect("a shard twice", "is given twice" in done.stderr, True)

    # ---- Faults ----
    data = (folder / "one.rec").read_bytes()
    (folder / "cut.rec").write_bytes(data)
    lines = (folder / "one.idx").read_text().splitlines(keepends=True)
    (folder / "cut.idx").write_text("".join(lines[:1]))
    done = run("--verify", folder / "cut.rec", status=1)
    expect("an index that is cut is named", f"'{folder / 'cut.idx'}' lists " in done.stderr, True)
    if len(lines) > 2:
        (folder / "cut.idx").write_text("".join(lines[1:]))
        done = run("--verify", folder / "cut.rec", status=1)
        expect("and one that has lost its first lines",
               f"'{folder / 'cut.idx'}' lists {len(data) - records[1][0]} of the {len(data)} bytes"
               in done.stderr, True)
    for whole in [], [folder / "one.rec"]:
        (folder / "cut.idx").write_text("")
        done = run("--verify", *whole, folder / "cut.rec", status=2)
        expect("an index without a line is named",
               f"'{folder / 'cut.idx'}' lists no record" in done.stderr, True)
    data = bytearray((folder / "tf.tfrecord").read_bytes())
    data[40] ^= 1
    (folder / "bad.tfrecord").write_bytes(data)
    done = run("--verify", folder / "bad.tfrecord", "--json", folder / "json", status=1)
    expect("counts of verify", counts(folder / "json"), (len(expected) - 1, 1))
    expect("a corrupt record is named", "bad.tfrecord', record at byte 0" in done.stderr, True)
    expect("in words of this program", "OnCorrupt" in done.stderr or "gx: " in done.stderr, False)
    expect("which has no such option beside --verify",
           "leave corrupt records out by packing the rest with --pack and --skip-corrupt."
           in done.stderr, True)
    done = run("--pack", folder / "bad.tfrecord", "--output", folder / "x", status=2)
    expect("its option is named", "out with --skip-corrupt" in done.stderr, True)
    expect("nothing is left of it", list(folder.glob("x*")), [])
    data = bytearray((folder / "tf.tfrecord").read_bytes())
    data[-6] ^= 1  # the last record, behind a shard that is whole
    (folder / "same.tfrecord").write_bytes(data)
    (folder / "same.classes.txt").write_text((folder / "tf.classes.txt").read_text())
    run("--pack", folder / "same.tfrecord", "--output", folder / "same", "--shards", 2, status=2)
    expect("a packing that fails leaves the names of its source",
           (folder / "same.classes.txt").read_text(), (folder / "tf.classes.txt").read_text())
    run("--pack", folder / "bad.tfrecord", "--output", folder / "x", "--skip-corrupt", "--json",
        folder / "json")
    expect("counts of pack", counts(folder / "json"), (len(expected) - 1, 1))
    expect("one is left out", len(read_recordio((folder / "x.rec").read_bytes())),
           len(expected) - 1)
    run("--pack", images, "--output", folder / "mix", "--shards", 3, "--seed", 7)
    data = bytearray((folder / "tf.tfrecord").read_bytes())
    data[-5] ^= 1  # of the last image
    (folder / "bad.tfrecord").write_bytes(data)
    run("--pack", folder / "bad.tfrecord", "--output", folder / "mix", "--shards", 3, status=2)
    mix = [folder / f"mix-{i:05}-of-00003.rec" for i in range(3)]
    for ending in ".rec", ".idx", ".lst":
        expect("of an earlier packing nothing is left among new shards",
               [shard.with_suffix(ending).exists() for shard in mix], [True, True, False])
    expect("nor its classes", (folder / "mix.classes.txt").exists(), False)
    expect("and the last is missed", f"1 of 3 shards are not there, '{mix[2]}' first"
           in run("--verify", *mix[:2], status=1).stderr, True)
    (folder / "empty" / "a").mkdir(parents=True)
    (folder / "empty" / "a" / "1.png").touch()
    done = run("--pack", folder / "empty", "--output", folder / "v", "--skip-corrupt", status=2)
    expect("a shard would be empty", "v.rec' would be empty: none of its 1 samples can be read"
           in done.stderr, True)
    expect("and is not written", list(folder.glob("v*")), [])
    records = bytearray((folder / "one.rec").read_bytes())
    records[8] = 7  # the first record's flag: so many labels
    (folder / "bad.rec").write_bytes(records)
    done = run("--list", folder / "bad.rec", status=2)
    expect("list names its option", "out with --skip-corrupt" in done.stderr, True)
    done = run("--list", folder / "bad.rec", "--skip-corrupt")
    expect("the others are listed", len(done.stdout.splitlines()), len(expected) - 1)
    expect("what is not listed", "bad.rec', record at byte 0" in done.stderr, True)
    run("--pack", images, "--output", folder / "y", "--shards", len(expected) + 1, status=2)
    before = [shard.read_bytes() for shard in shards]
    (folder / "link").symlink_to(folder)
    done = run("--pack", *shards, "--output", folder / "link" / "many", "--shards", 3, status=2)
    expect("what is read is not written", "would be overwritten" in done.stderr, True)
    expect("the shards are as they were", [shard.read_bytes() for shard in shards], before)
    run("--verify", shards[0], "--json", shards[0], status=2)
    run("--pack", images, "--output", folder / "w", "--json", folder / "w.idx", status=2)
    expect("a shard is no report", shards[0].read_bytes(), before[0])
    run("--pack", images, "--output", f"{folder}/", status=2)
    (images / "a\nb").mkdir()
    (images / "a\nb" / "1.jpg").write_bytes(b"x")
    run("--pack", images, "--output", folder / "z", "--to", "tfrecord", status=2)
    expect("nothing is written", list(folder.glob("z*")) + list(folder.glob(".*")), [])


def test_decode(folder, draw):
    """Images that no decoder takes are found by --decode alone."""
    images, good = folder / "images", 4
    for name in "a", "b":
        (images / name).mkdir(parents=True)
    for i in range(good):
        (images / "a" / f"{i}.png").write_bytes(png(draw))
    bad = {"cut.png": png(draw)[:-40], "garbage.jpg": b"\xff\xd8\xff\xe0" + draw.randbytes(300),
           "text.jpg": b"no image"}
    for name, data in bad.items():
        (images / "b" / name).write_bytes(data)
    report, plain, whole = folder / "json", folder / "plain", folder / "whole"
    run("--pack", images, "--output", plain, "--skip-corrupt", "--json", report)
    expect("packed as they are", counts(report), (good + len(bad), 0))
    run("--verify", f"{plain}.rec", "--json", report)
    expect("sound records", counts(report), (good + len(bad), 0))
    done = run("--pack", images, "--output", whole, "--decode", status=2)
    expect("the first is named, and the option", "cut.png" in done.stderr
           and "leave corrupt images out with --skip-corrupt" in done.stderr, True)
    expect("nothing is left of it", list(folder.glob("whole*")), [])
    run("--pack", images, "--output", whole, "--decode", "--skip-corrupt", "--json", report)
    expect("corrupt images are left out", counts(report), (good, len(bad)))
    expect("of the shard too", len(read_recordio(whole.with_suffix(".rec").read_bytes())), good)
    done = run("--verify", images, "--decode", "--json", report, status=1)
    expect("and counted by verify", counts(report), (good, len(bad)))
    expect("each is named", [name in done.stderr for name in bad], [True] * len(bad))
    run("--verify", f"{whole}.rec", "--decode")
    done = run("--verify", f"{plain}.rec", "--decode", status=1)
    expect("by its record", done.stderr.count("plain.rec', record at byte "), len(bad))
    for path in (images / "a").iterdir():
        path.write_bytes(b"")
    done = run("--pack", images, "--output", folder / "none", "--decode", "--skip-corrupt",
               status=2)
    expect("a shard of corrupt images", "none.rec' would be empty: none of its 7" in done.stderr
           and "One of them: " in done.stderr and "text.jpg" in done.stderr, True)
    run("--list", images, "--decode", status=2)


with tempfile.TemporaryDirectory() as place:
    test_decode(pathlib.Path(place) / "decode", random.Random(1))
    for seed in range(5):
        folder = pathlib.Path(place) / str(seed)
        folder.mkdir()
        test(folder, random.Random(seed))
sys.exit(1 if failures else 0)
