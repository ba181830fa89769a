#include <gx/loader/formats/tf_record.hpp>

#include <loader/formats/shards.hpp>  // stored_samples, bytes_of

#include <gx/io/crc32c.hpp>  // crc32c

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

namespace {

using namespace gx;
using namespace testing_support;
using testing::ElementsAre, testing::ElementsAreArray;
namespace fs = std::filesystem;

std::string number(std::uint64_t x, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i, x >>= 8) text.push_back(static_cast<char>(x));
    return text;
}
std::string masked_crc(const std::string& text) {
    const std::uint32_t crc = crc32c(as_bytes(text));
    return number((crc >> 15 | crc << 17) + 0xa282ead8u, 4);
}
std::string framed(const std::string& data) {
    const std::string length = number(data.size(), 8);
    return length + masked_crc(length) + data + masked_crc(data);
}
/// A field of fewer than 128 bytes.
std::string field(int number, const std::string& value) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(value.size())} + value;
}
std::string feature(const std::string& key, const std::string& value) {
    return field(1, field(1, key) + field(2, value));
}
std::string image(const std::string& bytes) {
    return feature("image/encoded", field(1, field(1, bytes)));
}
std::string label(const std::string& list) { return feature("image/class/label", field(3, list)); }
std::string example(const std::string& features) { return framed(field(1, features)); }

// ---- Files of others ------------------------------------------------------------------------
TEST(TfRecord, ReadsWhatTfrecordWrote) {
    const Folder folder;
    write_text(folder / "train-0", bytes_of(shards::tfrecord));
    const TfRecord source(folder / "train-0");
    EXPECT_EQ(source.info(), (EncodedInfo{.name = "train-0", .count = 5, .classes = 1000}));
    EXPECT_THAT(samples_of(source), ElementsAreArray(stored_samples()));
}
TEST(TfRecord, ItsCrcIsThatOfGoogle) {
    const std::string text(shards::checked_text);
    EXPECT_EQ(crc32c(as_bytes(text)), shards::checked_crc32c);
}

// ---- Cases worked by hand -------------------------------------------------------------------
TEST(TfRecord, ReadsLabelsPackedAndOneByOne) {
    const Folder folder;
    write_text(folder / "a", example(image("x") + label(field(1, "\x05"))) +
                                 example(label("\x08\xac\x02") + image("y")));  // 300
    EXPECT_THAT(samples_of(TfRecord(folder / "a")),
                ElementsAre(StoredSample{"x", 5}, StoredSample{"y", 300}));
}
TEST(TfRecord, ReadsTheKeysThatItIsGiven) {
    const Folder folder;
    write_text(folder / "a", example(feature("pixels", field(1, field(1, "x"))) +
                                     feature("class", field(3, field(1, "\x03"))) + image("y")));
    EXPECT_THAT(samples_of(TfRecord(folder / "a", {{.first_label = 1}, "pixels", "class"})),
                ElementsAre(StoredSample{"x", 2}));
}

// ---- A property -----------------------------------------------------------------------------
TEST(TfRecord, ReadsWhatWasWritten) {
    EXPECT_TRUE(rc::check([] {
        const Folder folder;
        std::vector<StoredSample> all;
        std::vector<fs::path> shards;
        for (int left = *rc::gen::inRange(1, 4); left-- > 0;) {
            shards.push_back(folder.path / std::to_string(left));
            TfRecordWriter writer(shards.back());
            for (int images = *rc::gen::inRange(1, 6); images-- > 0;) {
                std::string bytes = *rc::gen::nonEmpty<std::string>();
                if (*rc::gen::inRange(0, 4) == 0) bytes.resize(40'000, 'z');
                all.push_back({bytes, *rc::gen::inRange(0, 1 << 20)});
                writer.add(as_bytes(bytes), all.back().label, *rc::gen::arbitrary<std::string>());
            }
            writer.commit();
        }
        const TfRecord source(shards);
        RC_ASSERT(samples_of(source) == all);
    }));
}

TEST(TfRecord, TakesTwoNamesInBraces) {
    EXPECT_THAT(error_of([] { const TfRecord source({"none-0.tfrecord", "none-1.tfrecord"}); }),
                ::testing::HasSubstr("'none-0.tfrecord' can't be opened"));
}

// ---- Bad files ------------------------------------------------------------------------------
class BadTfRecord : public testing::Test {
protected:
    std::string opening(const std::string& bytes, const TfRecordOptions& options = {}) {
        write_text(folder / "a", bytes);
        return error_of([&] { const TfRecord source(folder / "a", options); });
    }
    std::vector<StoredSample> skipping(const std::string& bytes, std::int64_t at_index,
                                       std::int64_t at_reading) {
        write_text(folder / "a", bytes);
        const TfRecord source(folder / "a", {{.on_corrupt = OnCorrupt::skip}});
        EXPECT_EQ(source.skipped().count, at_index);
        const auto reader = source.open();
        std::vector<StoredSample> found;
        for (std::uint32_t i = 0; i < source.info().count; ++i)
            found.push_back(read_one(*reader, i));
        EXPECT_EQ(reader->skipped().count, at_reading);
        return found;
    }
    const Folder folder;
    const std::string good = example(image("good") + label(field(1, "\x02")));
    const std::string size = std::to_string(good.size());
};
TEST_F(BadTfRecord, AFlippedBitAnywhere) {
    const std::string bytes = good + good + good;
    for (std::size_t i = good.size(); i < 2 * good.size(); ++i)
        for (const int bit : {0, 3, 7}) {
            std::string flipped = bytes;
            flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
            write_text(folder / "a", flipped);
            const std::string sentence = error_of([&] {
                const TfRecord source(folder / "a");
                (void)samples_of(source);
            });
            EXPECT_TRUE(holds(sentence, "a', record at byte " + size, "Copy the file again")) << i;
        }
}
TEST_F(BadTfRecord, ACrcOfItsData) {
    std::string bytes = good + good + good;
    bytes[good.size() + good.find("good")] ^= 1;
    EXPECT_EQ(opening(bytes), "no error") << "images are not read for the index";
    const TfRecord stops(folder / "a");
    EXPECT_TRUE(holds(error_of([&] { (void)samples_of(stops); }), "record at byte " + size,
                      "the masked CRC-32C of its data is 0x", "expected 0x"));
    EXPECT_THAT(skipping(bytes, 0, 1),
                ElementsAre(StoredSample{"good", 2}, StoredSample{"", 2}, StoredSample{"good", 2}));
}
TEST_F(BadTfRecord, ACrcOfItsLengthEndsTheFile) {
    std::string bytes = good + good + good;
    bytes[good.size() + 8] ^= 1;
    EXPECT_TRUE(holds(opening(bytes), "record at byte " + size, "CRC-32C of its length"));
    EXPECT_THAT(skipping(bytes, 1, 0), ElementsAre(StoredSample{"good", 2}));
}
TEST_F(BadTfRecord, EveryShorterFile) {
    const std::string bytes = good + good;
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        if (n == good.size()) continue;
        const std::string place = n < good.size() ? "0" : size;
        EXPECT_TRUE(holds(opening(bytes.substr(0, n)), "a', record at byte " + place)) << n;
    }
    EXPECT_TRUE(holds(opening(bytes.substr(0, bytes.size() - 1)), "4 of their CRC, and the file",
                      "ends " + std::to_string(good.size() - 13) + " bytes behind its head"));
    EXPECT_THAT(skipping(bytes.substr(0, bytes.size() - 1), 1, 0),
                ElementsAre(StoredSample{"good", 2}));
}
TEST_F(BadTfRecord, ExamplesThatDoNotFit) {
    const auto skipped = [&](const std::string& bad) {
        EXPECT_THAT(skipping(good + bad + good, 1, 0),
                    ElementsAre(StoredSample{"good", 2}, StoredSample{"good", 2}));
        return opening(good + bad);
    };
    const std::string two = label(field(1, "\x02"));
    EXPECT_TRUE(holds(skipped(example(two)), "record at byte " + size,
                      "0 values of type bytes under 'image/encoded'"));
    EXPECT_TRUE(holds(skipped(example(image("x"))), "0 values of type int64"));
    EXPECT_TRUE(holds(skipped(example(image("x") + label(field(1, "\x02\x03")))), "2 values"));
    EXPECT_TRUE(holds(skipped(example(image("x") + image("x") + two)), "2 values of type bytes"));
    EXPECT_TRUE(holds(skipped(framed("\x0a\x7fxx")), "field of 127 bytes passes the end"));
    const std::string fixed32 = "\x0d\x81\x80\x80" + std::string(1, 0),
                      fixed64 = "\x09\x01\x02" + std::string(6, 0);
    for (const std::string& list : {fixed32, fixed64})  // no int64 is stored so
        EXPECT_TRUE(holds(skipped(example(image("x") + label(list))), "0 values of type int64"));
    EXPECT_TRUE(holds(skipped(framed("\x0b")), "a field of type 3"));
    EXPECT_TRUE(holds(skipped(framed(field(0, "x"))), "a field of number 0"));
    EXPECT_TRUE(holds(skipped(framed("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
                      "a number in it does not end"));
    EXPECT_TRUE(holds(skipped(framed("")), "0 values"));
    const std::string minus_one = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    EXPECT_TRUE(holds(skipped(example(image("x") + label(field(1, minus_one)))), "label is -1"));
    EXPECT_TRUE(holds(opening(good, {{.classes = 2}}), "label is 2", "from 0 to 1"));
    EXPECT_THAT(skipping(good + example(image("") + two), 0, 1),
                ElementsAre(StoredSample{"good", 2}, StoredSample{"", 2}));
}
TEST_F(BadTfRecord, FilesThatAreNone) {
    EXPECT_TRUE(holds(opening(""), "the file is empty"));
    EXPECT_TRUE(holds(opening(std::string("\x1f\x8b") + good), "a' is compressed by gzip"));
    std::string odd = field(1, image("x") + label(field(1, "\x02")));
    while (odd.size() < 0x8b1f)
        odd += field(2, std::string(std::min<std::size_t>(100, 0x8b1f - 2 - odd.size()), 'x'));
    EXPECT_EQ(opening(framed(odd)), "no error") << "its length begins as gzip's files do";
    EXPECT_TRUE(holds(opening(std::string(100, 'x')), "CRC-32C of its length"));
}
TEST(BadTfRecordWriter, RefusesAnEmptyImage) {
    const Folder folder;
    TfRecordWriter writer(folder / "a");
    EXPECT_TRUE(holds(error_of([&] { writer.add({}, 0, "a.jpg"); }), "a.jpg' has 0 bytes"));
}

}  // namespace
