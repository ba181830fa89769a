#include <gx/trainer/safetensors.hpp>

#include <sys/stat.h>  // mkfifo

#include <algorithm>  // shuffle
#include <bit>        // bit_cast
#include <random>     // mt19937_64
#include <utility>    // exchange

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, error_of, holds

namespace {

using namespace testing_support;

/// A file of a header and data, its length told as the format says.
std::string file_of(const std::string& header, const std::string& data) {
    const std::uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

// ---- A case worked by hand ----------------------------------------------------------

TEST(Safetensors, IsTheFormatByteForByte) {
    const Folder folder;
    const std::vector<float> a{1, -2}, b{0.5f};
    gx::write_safetensors(folder / "f", {{"a", {2, 1}, a}, {"b", {}, b}}, {{"k", "v\"w"}});
    std::string header =  // its sum is that of Python's zlib.crc32 over names, shapes and sums
        R"({"__metadata__":{"gx.crc32":"938e6212","k":"v\"w"},)"
        R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
        R"("b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    using namespace std::string_literals;
    EXPECT_EQ(read_text(folder / "f"), file_of(header, "\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f"s));
    const auto back = gx::read_safetensors(folder / "f");
    EXPECT_EQ(back.metadata.at("k"), "v\"w");
    EXPECT_EQ(back.tensors.at("a").shape, (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(back.tensors.at("a").values, a);
    EXPECT_EQ(back.tensors.at("b").values, b);
}

// ---- A property ---------------------------------------------------------------------

RC_GTEST_PROP(Safetensors, GiveBackEveryBit, (std::vector<std::vector<std::uint32_t>> bits)) {
    const auto path = std::filesystem::temp_directory_path() /
                      ("gx_" + std::to_string(getpid()) + "_bits.safetensors");
    std::vector<std::vector<float>> values;
    std::vector<gx::NamedTensor> tensors;
    for (const auto& words : bits) {
        values.emplace_back();
        for (const auto w : words) values.back().push_back(std::bit_cast<float>(w));
    }
    for (std::size_t i = 0; i < values.size(); ++i)
        tensors.push_back({"t" + std::to_string(i), {std::int64_t(values[i].size())}, values[i]});
    gx::write_safetensors(path, tensors);
    const auto back = gx::read_safetensors(path);
    std::filesystem::remove(path);
    RC_ASSERT(back.tensors.size() == bits.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
        const auto& got = back.tensors.at("t" + std::to_string(i)).values;
        RC_ASSERT(got.size() == bits[i].size());
        for (std::size_t k = 0; k < got.size(); ++k)
            RC_ASSERT(std::bit_cast<std::uint32_t>(got[k]) == bits[i][k]);
    }
}

// A bit of the checksum's name may be lost: then nothing is checked, and nothing else is wrong.
TEST(Safetensors, FindEveryBitThatChanged) {
    const Folder folder;
    const std::vector<float> a{1, -2, 3};
    gx::write_safetensors(folder / "f", {{"a", {3}, a}}, {{"step", "128"}});
    const std::string whole = read_text(folder / "f");
    int refused = 0, sums_lost = 0;
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        std::string text = whole;
        text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
        write_text(folder / "f", text);
        try {
            const auto back = gx::read_safetensors(folder / "f");
            ++sums_lost;
            ASSERT_EQ(back.metadata.count("gx.crc32"), 0u) << "bit " << bit;
            ASSERT_FALSE(back.summed) << "bit " << bit;
            ASSERT_EQ(back.metadata.at("step"), "128") << "bit " << bit;
            ASSERT_EQ(back.tensors.at("a").values, a) << "bit " << bit;
        } catch (const gx::Error&) {
            ++refused;
        }
    }
    EXPECT_EQ(refused + sums_lost, 8 * static_cast<int>(whole.size()));
    EXPECT_LE(sums_lost, 8 * 8);
    std::string text = whole;
    text[whole.size() - 1] ^= 1;
    write_text(folder / "f", text);
    EXPECT_TRUE(holds(error_of([&] { (void)gx::read_safetensors(folder / "f"); }),
                      "its content has changed since it was written: field 'gx.crc32'",
                      "save it without the metadata field 'gx.crc32'"));
}

/// Python's library writes metadata in any order, and tensors sorted by type and name.
TEST(Safetensors, AnotherProgramMayWriteThemAgain) {
    const Folder folder;
    const std::vector<float> a{1, -2}, z{0.5f};
    gx::write_safetensors(folder / "f", {{"z", {}, z}, {"a", {2}, a}}, {{"k", "v"}, {"l", "w"}});
    const std::string sum = gx::read_safetensors(folder / "f").metadata.at("gx.crc32");
    const auto header = [&](const std::string& k) {
        return R"({"__metadata__":{"l":"w","gx.crc32":")" + sum + R"(","k":")" + k + R"("},)" +
               R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("z":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";
    };
    using namespace std::string_literals;
    const auto data = "\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f"s;
    write_text(folder / "f", file_of(header("v"), data));
    const auto back = gx::read_safetensors(folder / "f");
    EXPECT_TRUE(back.summed);
    EXPECT_EQ(back.tensors.at("a").values, a);
    EXPECT_EQ(back.tensors.at("z").values, z);
    const auto told = [&](const std::string& text) {
        write_text(folder / "f", text);
        return error_of([&] { (void)gx::read_safetensors(folder / "f"); });
    };
    EXPECT_TRUE(holds(told(file_of(header("x"), data)), "its content has changed"));
    EXPECT_TRUE(
        holds(told(file_of(header("v"), data.substr(4) + data.substr(0, 4))), "has changed"));
}

TEST(Safetensors, TextsThatAreNoUtf8AreReadBackAsJsonHasThem) {
    const Folder folder;
    const std::vector<float> a{1};
    gx::write_safetensors(folder / "f", {{"caf\xe9", {}, a}},
                          {{"file", "caf\xe9.jpg"}, {"k\xe8", "1"}, {"k\xe9", "2\x01\\"}});
    const auto back = gx::read_safetensors(folder / "f");
    EXPECT_TRUE(back.summed);
    EXPECT_EQ(back.metadata.at("file"), "caf\ufffd.jpg");
    EXPECT_EQ(back.metadata.at("k\ufffd"), "2\x01\\") << "the last of those that are read alike";
    EXPECT_EQ(back.tensors.at("caf\ufffd").values, a);
}

/// Earlier versions had "crc32" first, of the header with zeros in its place and of the data.
TEST(Safetensors, EarlierSumsHold) {
    const Folder folder;
    std::string header = R"({"__metadata__":{"crc32":"2ca75ba4","gx":"{}"},)"
                         R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    using namespace std::string_literals;
    const std::string whole = file_of(header, "\0\0\x80\x3f\0\0\0\xc0"s);
    int sums_lost = 0;
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        std::string text = whole;
        text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
        write_text(folder / "f", text);
        try {
            ASSERT_FALSE(gx::read_safetensors(folder / "f").summed) << "bit " << bit;
            ++sums_lost;
        } catch (const gx::Error&) {
        }
    }
    EXPECT_LE(sums_lost, 8 * 7) << "those of two names";
    write_text(folder / "f", whole);
    EXPECT_TRUE(gx::read_safetensors(folder / "f").summed);
}
TEST(Safetensors, OtherProgramsHaveFieldsOfThatName) {
    const Folder folder;
    write_text(folder / "f", file_of(R"({"__metadata__":{"crc32":"deadbeef"}})", ""));
    EXPECT_FALSE(gx::read_safetensors(folder / "f").summed);
    write_text(folder / "f", file_of(R"({"__metadata__":{"gx":"{}","crc32":"deadbeef"}})", ""));
    EXPECT_FALSE(gx::read_safetensors(folder / "f").summed) << "gx writes it first";
}

TEST(Safetensors, EmptyTensorsHaveNoBytesToCopy) {  // which a sanitizer finds
    const Folder folder;
    for (const std::string type : {"F16", "BF16", "F32", "F64", "I64"}) {
        write_text(
            folder / "f",
            file_of(R"({"t":{"dtype":")" + type + R"(","shape":[0,5],"data_offsets":[0,0]}})", ""));
        const auto t = gx::read_safetensors(folder / "f").tensors.at("t");
        EXPECT_EQ(t.shape, (std::vector<std::int64_t>{0, 5}));
        EXPECT_EQ(t.values.size(), 0u) << type;
    }
}

TEST(Safetensors, EmptyTensorsLeaveTheSumAsItIs) {
    const Folder folder;
    const std::vector<float> a{1, -2, 3}, never;
    std::vector<float> cleared{9};
    cleared.clear();
    for (const auto& empty : {never, cleared})
        for (const bool last : {false, true}) {
            std::vector<gx::NamedTensor> all{{"a", {3}, a}};
            all.insert(last ? all.end() : all.begin(), {"none", {0}, empty});
            gx::write_safetensors(folder / "f", all);
            EXPECT_EQ(gx::read_safetensors(folder / "f").tensors.at("a").values, a);
            std::string text = read_text(folder / "f");
            text[text.size() - 1] ^= 1;
            write_text(folder / "f", text);
            EXPECT_TRUE(holds(error_of([&] { (void)gx::read_safetensors(folder / "f"); }),
                              "its content has changed since it was written"));
        }
}

// ---- Bad files ----------------------------------------------------------------------

TEST(Safetensors, SayWhatIsWrong) {
    const Folder folder;
    const auto told = [&](const std::string& text) {
        write_text(folder / "f", text);
        return error_of([&] { (void)gx::read_safetensors(folder / "f"); });
    };
    const auto entry = [](const std::string& shape, const std::string& offsets,
                          const std::string& type = "F32") {
        return R"({"t":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" +
               offsets + "}}";
    };
    const std::string four(4, '\0');
    EXPECT_EQ(told(file_of(entry("[1]", "[0,4]"), four)), "no error");
    EXPECT_TRUE(holds(told(""), "/f': the header is longer than the file"));
    EXPECT_TRUE(holds(told(std::string(8, '\xff')), "the header is longer"));
    EXPECT_TRUE(holds(told(file_of("[1]", "")), "the header is not a JSON object"));
    EXPECT_TRUE(holds(told(file_of("{\"t\"", "")), "the header is not a JSON object"));
    EXPECT_TRUE(holds(told(file_of(R"({"t":3})", "")), "tensor 't' lacks dtype, shape"));
    EXPECT_TRUE(holds(told(file_of(R"({"t":{"dtype":"F32"}})", "")), "tensor 't' lacks"));
    EXPECT_TRUE(holds(told(file_of(entry("[9],\"shape\":[1]", "[0,4]"), four)),
                      "tensor 't' lacks dtype, shape or data_offsets, or has one twice or of "
                      "another kind"));
    EXPECT_TRUE(holds(told(file_of(entry("[2,3]", "[-4,4]"), four)),
                      "field 'data_offsets' of tensor 't' is [-4, 4] and does not fit its shape or "
                      "the file: expected 24 bytes for the shape [2, 3] of F32, within the file's "
                      "4"));
    for (const char* metadata : {R"("a")", R"(["a"])", "3", R"({"a":1})", R"({"a":{"b":"c"}})"})
        EXPECT_TRUE(holds(told(file_of(R"({"__metadata__":)" + std::string(metadata) + "}", "")),
                          "/f': field '__metadata__' is not an object of texts"));
    EXPECT_EQ(told(file_of(R"({"__metadata__":null})", "")), "no error") << "as Python has it";
    EXPECT_TRUE(holds(told(file_of(entry("[1]", "[0,4]", "BF16"), four)), "does not fit its"));
    for (const char* whole : {"F8_E4M3", "F8_E5M2", "F8_E8M0"})  // of shape alone
        EXPECT_EQ(told(file_of(entry("[4]", "[0,4]", whole), four)), "no error");
    EXPECT_EQ(told(file_of(entry("[1]", "[0,8]", "C64"), four + four)), "no error");
    EXPECT_TRUE(holds(told(file_of(entry("[8]", "[0,4]", "F4"), four)),
                      "'dtype' of tensor 't' is 'F4', which gx does not read. Save it as F32, "
                      "F16 or BF16, or without that tensor."));
    EXPECT_TRUE(holds(told("PK\3\4" + std::string(90, '\0')),
                      "/f': it is a zip archive, as torch.save writes. Save its state_dict by "
                      "Python's safetensors.torch.save_file."));
    EXPECT_TRUE(
        holds(told(file_of(entry("[1]", "[0,4]"), "")), "does not fit its shape or the file"));
    EXPECT_TRUE(holds(told(file_of(entry("[2]", "[0,4]"), four)), "does not fit its shape"));
    EXPECT_TRUE(holds(told(file_of(entry("[1]", "[4,0]"), four)), "does not fit its shape"));
    // 2^62 elements are 2^64 bytes: 0 to who does not look
    EXPECT_TRUE(
        holds(told(file_of(entry("[4611686018427387904]", "[0,0]"), four)), "does not fit"));
    EXPECT_TRUE(holds(told(file_of(entry("[-1,-1]", "[0,4]"), four)), "does not fit"));
    EXPECT_TRUE(holds(told(file_of(entry("[-1,0]", "[0,0]"), "")), "does not fit"));
    EXPECT_TRUE(holds(told(file_of(entry("[0,-1]", "[0,0]"), "")), "does not fit"));
    EXPECT_EQ(told(file_of(entry("[0,3]", "[0,0]"), "")), "no error");
    const std::string twice = entry("[1]", "[0,4]").substr(1, entry("[1]", "[0,4]").size() - 2);
    EXPECT_TRUE(
        holds(told(file_of("{" + twice + "," + twice + "}", four)), "'t' appears twice in its"));
    EXPECT_TRUE(holds(told(file_of(entry("[1]", "[0,4.5]"), four)), "'t' lacks"));
    EXPECT_TRUE(holds(told(file_of("{}", four)), "trailing bytes after the last tensor"));
    EXPECT_TRUE(holds(error_of([&] { (void)gx::read_safetensors(folder / "absent"); }),
                      "absent' cannot be opened: No such file"));
    EXPECT_TRUE(holds(error_of([&] { (void)gx::read_safetensors(folder.path); }),
                      "is a folder. Give one of the checkpoints in it"));
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    EXPECT_TRUE(holds(error_of([&] { (void)gx::read_safetensors(folder / "pipe"); }),
                      "pipe' is a device or a pipe, not a file"));
}

/// A header of tensors "t0", "t1", ... of F32 at [begin, end).
std::string header_of(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& offsets) {
    std::string text = "{";
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        const auto [begin, end] = offsets[i];
        text += (i > 0 ? ",\"t" : "\"t") + std::to_string(i) + R"(":{"dtype":"F32","shape":[)" +
                std::to_string((end - begin) / 4) + R"(],"data_offsets":[)" +
                std::to_string(begin) + "," + std::to_string(end) + "]}";
    }
    return text + "}";
}
TEST(Safetensors, TensorsFillTheDataInAnyOrder) {
    const Folder folder;
    const auto told = [&](const std::string& header, std::size_t bytes) {
        write_text(folder / "f", file_of(header, std::string(bytes, '\0')));
        return error_of([&] { (void)gx::read_safetensors(folder / "f"); });
    };
    EXPECT_EQ(told(header_of({{4, 12}, {0, 4}}), 12), "no error") << "a header may be unsorted";
    EXPECT_TRUE(holds(told(header_of({{0, 8}, {4, 12}}), 12),
                      "/f': field 'data_offsets' of "
                      "tensor 't1' begins at 4, and the tensor before it ends at 8"));
    EXPECT_TRUE(holds(told(header_of({{0, 4}, {8, 12}}), 12), "'t1' begins at 8", "ends at 4"));
    EXPECT_TRUE(holds(told(header_of({{4, 8}}), 8), "'t0' begins at 4", "ends at 0"));
    EXPECT_TRUE(holds(told(header_of({{0, 4}}), 8), "trailing bytes after the last tensor"));
    // 2,000 names for the same 4 MB are 8 GB to who does not look
    const std::vector<std::pair<std::uint64_t, std::uint64_t>> same(2000, {0, 4'000'000});
    EXPECT_TRUE(holds(told(header_of(same), 4'000'000), "begins at 0", "ends at 4000000"));
}

TEST(Safetensors, ReadsFloatsAtAnyOffset) {
    const Folder folder;
    write_text(folder / "f", file_of(R"({"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},)"
                                     R"("t":{"dtype":"F32","shape":[2],"data_offsets":[2,10]}})",
                                     std::string("\x00\x3c\x00\x00\x80\x3f\x00\x00\x20\xc0", 10)));
    const auto tensors = gx::read_safetensors(folder / "f").tensors;
    EXPECT_EQ(tensors.at("h").values, (std::vector<float>{1}));
    EXPECT_EQ(tensors.at("t").values, (std::vector<float>{1, -2.5f}));
}

// Oracle: tensors are accepted if and only if, sorted, each begins where the last one ended.
RC_GTEST_PROP(Safetensors, AcceptOffsetsThatTileTheData,
              (std::vector<std::uint8_t> sizes, std::uint64_t seed)) {
    const auto path = std::filesystem::temp_directory_path() /
                      ("gx_" + std::to_string(getpid()) + "_tiles.safetensors");
    std::vector<std::pair<std::uint64_t, std::uint64_t>> offsets;
    std::uint64_t end = 0;
    for (const std::uint8_t size : sizes) {
        const std::uint64_t begin = std::exchange(end, end + 4 * (1 + size % 5u));
        offsets.emplace_back(begin, end);
    }
    std::shuffle(offsets.begin(), offsets.end(), std::mt19937_64(seed));
    const bool moved = !offsets.empty() && *rc::gen::arbitrary<bool>();
    if (moved) {  // one of them by a few elements: a hole and an overlap, or beyond the end
        auto& one = offsets[*rc::gen::inRange<std::size_t>(0, offsets.size())];
        const auto by = 4 * *rc::gen::inRange<std::uint64_t>(1, 4);
        one = {one.first + by, one.second + by};
    }
    write_text(path, file_of(header_of(offsets), std::string(end, '\1')));
    const std::string error = error_of([&] { (void)gx::read_safetensors(path); });
    std::filesystem::remove(path);
    RC_ASSERT((error == "no error") == !moved);
    RC_ASSERT(!moved || error.find("data_offsets") != error.npos);
}

}  // namespace
