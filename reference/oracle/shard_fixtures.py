#!/usr/bin/env python3
"""Writes tests/loader/formats/shard_fixtures.hpp: small shards by the formats' own writers.

Run:   DMLC_CORE=CHECKOUT python3 reference/oracle/shard_fixtures.py \\
           > tests/loader/formats/shard_fixtures.hpp
Needs: PyPI's tfrecord, webdataset and google-crc32c, a checkout of github.com/dmlc/dmlc-core, and
       g++. The tests need the committed header only.

RecordIO: records by dmlc-core's RecordIOWriter, headers as MXNet's python/mxnet/recordio.py packs
them ("IfQQ": flag, label, id, id2). TFRecord: by tfrecord's TFRecordWriter, with ImageNet's keys.
WebDataset: by its TarWriter, and by Python's tarfile with long names in each of its formats.
"""
import importlib.metadata, io, os, pathlib, struct, subprocess, sys, tarfile, tempfile

import google_crc32c
import tfrecord.writer
import webdataset

MAGIC = struct.pack("<I", 0xCED7230A)
LABELS = [3, 0, 999, 1, 7]


def image(i):
    """Bytes that no decoder would take; the fourth and fifth hold RecordIO's magic number."""
    noise = bytes((37 * i + 11 * k * k) % 256 for k in range(20 + 7 * i))
    return [noise, noise, noise, noise[:8] + MAGIC + noise + MAGIC, MAGIC + MAGIC + noise[:5]][i]


def recordio():
    writer = """
        #include <dmlc/recordio.h>
        #include <cstdio>
        struct Out : dmlc::Stream {
            size_t Read(void*, size_t) override { return 0; }
            size_t Write(const void* p, size_t n) override { return fwrite(p, 1, n, stdout); }
        };
        int main() {  // input: length (4 bytes), data; output: records; errors: their offsets
            Out out;
            dmlc::RecordIOWriter writer(&out);
            unsigned n;
            while (fread(&n, 4, 1, stdin) == 1) {
                std::string data(n, 0);
                if (fread(&data[0], 1, n, stdin) != n) return 1;
                fprintf(stderr, "%ld\\n", ftell(stdout));
                writer.WriteRecord(data);
            }
        }"""
    core = pathlib.Path(os.environ["DMLC_CORE"])
    with tempfile.TemporaryDirectory() as folder:
        source, program = folder + "/w.cc", folder + "/w"
        pathlib.Path(source).write_text(writer)
        subprocess.run(["g++", "-O1", f"-I{core}/include", source, f"{core}/src/recordio.cc",
                        "-o", program], check=True)
        data = b""
        for i, label in enumerate(LABELS):
            # The last label as an array of one, which im2rec --pack-label writes.
            flag, extra = (1, struct.pack("<f", label)) if i == 4 else (0, b"")
            record = struct.pack("<IfQQ", flag, label * (1 - flag), 10 + i, 0) + extra + image(i)
            data += struct.pack("<I", len(record)) + record
        with open(folder + "/out", "w+b") as out:
            done = subprocess.run([program], input=data, stdout=out, stderr=subprocess.PIPE,
                                  check=True)
            out.seek(0)
            return out.read(), [int(line) for line in done.stderr.split()]


def tfrecords():
    with tempfile.TemporaryDirectory() as folder:
        writer = tfrecord.writer.TFRecordWriter(folder + "/a")
        for i, label in enumerate(LABELS):
            writer.write({"image/encoded": (image(i), "byte"),
                          "image/class/label": (label, "int"),
                          "image/class/text": (b"label of a class", "byte"),
                          "image/object/bbox/xmin": ([0.25, 0.5], "float"),
                          "image/height": (224, "int"),
                          "image/filename": (b"n%d.JPEG" % i, "byte")})
        writer.close()
        return pathlib.Path(folder + "/a").read_bytes()


def web_dataset():
    out = io.BytesIO()
    with webdataset.TarWriter(out, mtime=0) as writer:
        for i, label in enumerate(LABELS):
            writer.write({"__key__": f"sample{i:04d}", "jpg": image(i), "cls": label})
    return out.getvalue()


def tar(kind):
    """Names of 120 bytes, with dots in folders; members that are no samples."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        def put(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        folder = tarfile.TarInfo("v1.0")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for i, label in enumerate(LABELS[:2]):
            key = "v1.0/" + "deep/" * 20 + "very-long-name-%d" % i
            put(key + ".cls", b"%d\n" % label)
            put(key + ".thumb.jpg", b"other")
            put(key + ".PNG", image(i))
        link = tarfile.TarInfo("v1.0/link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
        archive.addfile(link)
    return out.getvalue()


def lines_of(text):
    return [text[k:k + 92] for k in range(0, len(text), 92)]


def show(name, data):
    """A literal in which runs of zeros are a word: 'z<count> '."""
    text, i = "", 0
    while i < len(data):
        zeros = len(data) - i - len(data[i:].lstrip(b"\0"))
        if zeros > 8:
            text, i = text + f"z{zeros} ", i + zeros
        else:
            text, i = text + f"{data[i]:02x}", i + 1
    body = "\n".join(f'    "{line}"' for line in lines_of(text))
    print(f"inline constexpr std::string_view {name} =\n{body};")


versions = ", ".join(f"{p} {importlib.metadata.version(p)}"
                     for p in ("tfrecord", "webdataset", "google-crc32c"))
head = subprocess.run(["git", "-C", os.environ["DMLC_CORE"], "rev-parse", "--short=12", "HEAD"],
                      capture_output=True, text=True)
core = head.stdout.strip() or os.environ.get("DMLC_CORE_COMMIT", "")[:12]
print(f"""// Written by reference/oracle/shard_fixtures.py with
// {versions}, dmlc-core {core}; do not edit.
#pragma once

#include <cstdint>
#include <string_view>

// clang-format off

namespace testing_support::shards {{

// Bytes in hexadecimal; "z<count> " is that many zeros.
inline constexpr int labels[] = {{{', '.join(map(str, LABELS))}}};
inline constexpr std::string_view images[] = {{""")
for i in range(5):
    print("    " + "\n    ".join(f'"{line}"' for line in lines_of(image(i).hex())) + ",")
print("};")
rec, offsets = recordio()
show("recordio", rec)
print(f"inline constexpr std::uint64_t recordio_offsets[] = {{{', '.join(map(str, offsets))}}};")
show("tfrecord", tfrecords())
show("web_dataset", web_dataset())
show("tar_ustar", tar(tarfile.USTAR_FORMAT))
show("tar_gnu", tar(tarfile.GNU_FORMAT))
show("tar_pax", tar(tarfile.PAX_FORMAT))
text = b"gx reads what others write"
print(f"inline constexpr std::string_view checked_text = \"{text.decode()}\";")
print(f"inline constexpr std::uint32_t checked_crc32c = {google_crc32c.value(text):#x};")
print("\n}  // namespace testing_support::shards")
