#include <gx/loader/formats/idx_files.hpp>

#include <gx/loader/idx.hpp>  // read_idx_dataset

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <loader/idx_files.hpp>
#include <support/files.hpp>  // error_of, holds

#include "same_in_memory.hpp"

namespace {

using namespace gx;
using support::Bytes;
using support::gzipped;
using support::idx;
using support::TemporaryFolder;
using testing_support::assert_same_in_memory;
using testing_support::error_of;
using testing_support::holds;

const Bytes three_images = idx(8, {3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
const Bytes three_labels = idx(8, {3}, {0, 9, 4});

// ---- A case worked by hand ------------------------------------------------------------------
TEST(IdxFiles, ReadsImagesAndLabelsWhereTheyLie) {
    const TemporaryFolder folder;
    const IdxFiles source(folder.write("images", three_images),
                          folder.write("labels", three_labels), 10, "three");
    EXPECT_EQ(source.info().count, 3);
    EXPECT_EQ(source.info().shape, (ImageShape{1, 2, 2}));
    EXPECT_EQ(source.info().classes, 10);
    EXPECT_FLOAT_EQ(source.info().mean.at(0), 6.5f / 255);
    EXPECT_EQ(source.largest_class(), 1);
    const auto reader = source.open();
    std::vector<Sample> out(2);
    reader->read(std::vector<std::uint32_t>{2, 0}, out);
    EXPECT_EQ(out[0].label, 4);
    EXPECT_EQ(out[0].pixels[0], 9);
    EXPECT_EQ(out[0].pixels[3], 12);
    EXPECT_EQ(out[1].label, 0);
    EXPECT_EQ(out[1].pixels[0], 1);
}
TEST(IdxFiles, CountsClassesWhereTheyAreNotGiven) {
    const TemporaryFolder folder;
    const auto images = folder.write("images", three_images);
    EXPECT_EQ(IdxFiles(images, folder.write("a", three_labels), 0, "x").info().classes, 10);
    EXPECT_EQ(IdxFiles(images, folder.write("b", idx(8, {3}, {0, 0, 0})), 0, "x").info().classes,
              2);
    EXPECT_EQ(IdxFiles(images, folder.write("c", idx(8, {3}, {1, 255, 0})), 0, "x").info().classes,
              256);
}

TEST(IdxFiles, NamesItsClassesAsItIsTold) {
    const TemporaryFolder folder;
    IdxFiles source(folder.write("images", three_images),
                    folder.write("labels", idx(8, {3}, {0, 1, 2})), 0, "three");
    const std::vector<std::string> names{"cat", "dog", "owl"};
    source.name_classes(names);
    EXPECT_EQ(source.info().class_names, names);
    EXPECT_TRUE(holds(error_of([&] { source.name_classes({"cat", "dog"}); }),
                      "three: 2 names for 3 classes: give one for each"));
    EXPECT_EQ(source.info().class_names, names) << "as before";
}

// ---- A property -----------------------------------------------------------------------------
TEST(IdxFiles, IsTheDataSetInMemoryToTheBit) {
    EXPECT_TRUE(rc::check([] {
        const TemporaryFolder folder;
        const auto count = *rc::gen::inRange<std::uint32_t>(1, 9);
        const auto height = *rc::gen::inRange<std::uint32_t>(1, 7);
        const auto width = *rc::gen::inRange<std::uint32_t>(1, 7);
        const auto images = folder.write(
            "images", idx(8, {count, height, width},
                          *rc::gen::container<Bytes>(count * height * width,
                                                     rc::gen::arbitrary<std::uint8_t>())));
        const auto labels = folder.write(
            "labels", idx(8, {count},
                          *rc::gen::container<Bytes>(count, rc::gen::inRange<std::uint8_t>(0, 5))));
        const Dataset data = read_idx_dataset(images, labels, 5, "x");
        const IdxFiles source(images, labels, 5, "x");
        assert_same_in_memory(source, data);
    }));
}

// ---- Bad files ------------------------------------------------------------------------------
TEST(IdxFiles, RefusesWhatTheReaderInMemoryRefuses) {
    const TemporaryFolder folder;
    const auto labels = folder.write("labels", three_labels);
    const auto both_say = [&](const Bytes& images, const Bytes& its_labels) {
        const auto file = folder.write("images", images), of = folder.write("of", its_labels);
        const std::string whole = error_of([&] { (void)read_idx_dataset(file, of, 9, "x"); });
        EXPECT_EQ(error_of([&] { const IdxFiles source(file, of, 9, "x"); }), whole);
        return whole;
    };
    EXPECT_TRUE(holds(both_say(idx(13, {1, 1, 1}, {0, 0, 0, 0}), three_labels), "magic number"));
    EXPECT_TRUE(holds(both_say({0, 0, 8}, three_labels), "found 3 bytes"));
    EXPECT_TRUE(holds(both_say(idx(8, {0, 2, 2}, {}), three_labels), "a size of 0"));
    EXPECT_TRUE(holds(both_say(idx(8, {3, 2, 2}, {1, 2}), three_labels), "12 bytes", "found 2"));
    EXPECT_TRUE(holds(both_say(three_images, idx(8, {2}, {0, 1})), "of: ", "found 2 labels"));
    EXPECT_TRUE(holds(both_say(three_images, three_labels), "label 1 is 9: expected 0 to 8"));
}
TEST(IdxFiles, SaysWhatItAloneRefuses) {
    const TemporaryFolder folder;
    const auto labels = folder.write("labels", three_labels);
    const auto opening = [&](const Bytes& images) {
        const auto file = folder.write("images", images);
        return error_of([&] { const IdxFiles source(file, labels, 10, "x"); });
    };
    EXPECT_TRUE(holds(opening(gzipped(three_images)), "packed by gzip", "gunzip -k"));
    Bytes longer = three_images;
    longer.push_back(0);
    EXPECT_TRUE(holds(opening(longer), "12 bytes of data, found 13"));
    EXPECT_TRUE(holds(opening(idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, {1})), "more than"));
    EXPECT_TRUE(holds(opening({}), "found 0 bytes"));
    EXPECT_TRUE(holds(opening(three_labels), "found 2049", "in each other's place"));
    Bytes wide = idx(8, {3, 1 << 15, 1 << 14}, {});
    const auto sparse = folder.write("sparse", wide);
    std::filesystem::resize_file(sparse, wide.size() + (std::uintmax_t{3} << 29));
    EXPECT_TRUE(holds(error_of([&] { const IdxFiles source(sparse, labels, 10, "x"); }),
                      "images of 32768 x 16384: expected at most 268435456 pixels"));
    const auto images = folder.write("images", three_images);
    EXPECT_TRUE(
        holds(error_of([&] { const IdxFiles source(images, labels, -5, "x"); }), "classes is -5"));
    EXPECT_TRUE(holds(
        error_of([&] { const IdxFiles source(folder.path() / "none", labels, 10, "x"); }), "none"));
}
TEST(IdxFiles, NamesAFileThatGetsShorter) {
    const TemporaryFolder folder;
    const auto images = folder.write("images", three_images);
    const auto labels = folder.write("labels", three_labels);
    const IdxFiles source(images, labels, 10, "x");
    const auto reader = source.open();
    std::vector<Sample> out(1);
    std::filesystem::resize_file(images, 16 + 8);
    reader->read(std::vector<std::uint32_t>{1}, out);
    EXPECT_TRUE(holds(error_of([&] { reader->read(std::vector<std::uint32_t>{2}, out); }),
                      "images: it ends within the 4 bytes from byte 24 on", "shorter"));
    std::filesystem::resize_file(labels, 8);
    EXPECT_TRUE(holds(error_of([&] { reader->read(std::vector<std::uint32_t>{0}, out); }),
                      "labels: it ends within the 1 bytes from byte 8 on"));
}

}  // namespace
