#include <gx/loader/formats/cifar.hpp>

#include <gx/loader/dataset.hpp>  // Dataset, normalise_as

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

#include "same_in_memory.hpp"

namespace {

using namespace gx;
using namespace testing_support;
namespace fs = std::filesystem;

/// Planes of one value each.
std::string record(const std::string& labels, char red, char green, char blue) {
    return labels + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}
Sample read_one(SampleReader& reader, std::uint32_t index) {
    std::vector<Sample> out(1);
    reader.read(std::vector{index}, out);
    return out[0];
}

// ---- Cases worked by hand -------------------------------------------------------------------
TEST(Cifar, ReadsTheFilesOfCifar10) {
    const Folder folder;
    for (int i = 1; i <= 5; ++i)
        write_text(folder.path / ("data_batch_" + std::to_string(i) + ".bin"),
                   record(std::string(1, char(i)), char(i), char(10 * i), char(20 * i)) +
                       record("\x09", 1, 2, 3));
    write_text(folder / "test_batch.bin", record("\x02", 7, 8, 9));
    const auto [train, test] = cifar10(folder.path);
    EXPECT_EQ(train.info().count, 10);
    EXPECT_EQ(train.info().shape, (ImageShape{3, 32, 32}));
    EXPECT_EQ(train.info().classes, 10);
    EXPECT_EQ(train.largest_class(), 5);
    EXPECT_FLOAT_EQ(train.info().mean.at(0), (15.0f + 5) / 10 / 255);
    EXPECT_EQ(test.info().mean, train.info().mean);
    EXPECT_EQ(test.info().deviation, train.info().deviation);
    const auto reader = train.open();
    for (std::uint32_t i = 0; i < 10; ++i) {
        const Sample s = read_one(*reader, i);
        EXPECT_EQ(s.label, i % 2 ? 9 : int(i) / 2 + 1);
        EXPECT_EQ(s.pixels[1023], i % 2 ? 1 : i / 2 + 1);
        EXPECT_EQ(s.pixels[1024], i % 2 ? 2 : 10 * (i / 2 + 1));
        EXPECT_EQ(s.pixels[3071], i % 2 ? 3 : 20 * (i / 2 + 1));
    }
}
TEST(Cifar, ReadsCoarseAndFineLabelsOfCifar100) {
    const Folder folder;
    write_text(folder / "train.bin", record({19, 99}, 1, 2, 3) + record({3, 4}, 5, 6, 7));
    write_text(folder / "test.bin", record({0, 1}, 1, 2, 3));
    const auto fine = cifar100(folder.path);
    const auto coarse = cifar100(folder.path, CifarLabels::coarse20);
    EXPECT_EQ(fine.train.info().classes, 100);
    EXPECT_EQ(coarse.train.info().classes, 20);
    EXPECT_EQ(read_one(*fine.train.open(), 0).label, 99);
    EXPECT_EQ(read_one(*coarse.train.open(), 0).label, 19);
    EXPECT_EQ(read_one(*coarse.train.open(), 1).pixels[0], 5);
    EXPECT_EQ(read_one(*fine.test.open(), 0).label, 1);
}
TEST(Cifar, ReadsTheClassNamesBesideItsFiles) {
    const Folder folder;
    for (int i = 1; i <= 5; ++i)
        write_text(folder.path / ("data_batch_" + std::to_string(i) + ".bin"),
                   record("\x01", 1, 2, 3));
    write_text(folder / "test_batch.bin", record("\x02", 7, 8, 9));
    EXPECT_TRUE(cifar10(folder.path).train.info().class_names.empty());
    write_text(folder / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
    const auto [train, test] = cifar10(folder.path);
    EXPECT_EQ(train.info().class_names.at(9), "j");
    EXPECT_EQ(test.info().class_names, train.info().class_names);
    write_text(folder / "batches.meta.txt", "a\nb\n");
    EXPECT_TRUE(holds(error_of([&] { (void)cifar10(folder.path); }),
                      "batches.meta.txt' names 2 classes: expected 10"));
    const std::vector<fs::path> one{folder / "test_batch.bin"};
    EXPECT_TRUE(holds(error_of([&] { Cifar(one, CifarLabels::ten, {"a", "b"}); }),
                      "CIFAR: 2 names for 10 classes: give one for each"));
    write_text(folder / "train.bin", record({19, 99}, 1, 2, 3));
    write_text(folder / "test.bin", record({0, 1}, 1, 2, 3));
    std::string coarse, fine;
    for (int c = 0; c < 20; ++c) coarse += "coarse" + std::to_string(c) + "\n";
    for (int c = 0; c < 100; ++c) fine += "fine" + std::to_string(c) + "\n";
    write_text(folder / "coarse_label_names.txt", coarse);
    write_text(folder / "fine_label_names.txt", fine);
    EXPECT_EQ(cifar100(folder.path).test.info().class_names.at(99), "fine99");
    EXPECT_EQ(cifar100(folder.path, CifarLabels::coarse20).train.info().class_names.at(19),
              "coarse19");
}

// ---- A property -----------------------------------------------------------------------------
TEST(Cifar, IsTheDataSetInMemoryToTheBit) {
    EXPECT_TRUE(rc::check([] {
        const Folder folder;
        Dataset data{.name = "cifar-10", .shape = {3, 32, 32}, .classes = 10};
        std::vector<fs::path> files;
        for (int left = *rc::gen::inRange(1, 4); left-- > 0;) {
            std::string text;
            for (int images = *rc::gen::inRange(1, 5); images-- > 0;) {
                data.labels.push_back(std::uint8_t(*rc::gen::inRange(0, 10)));
                text.push_back(static_cast<char>(data.labels.back()));
                auto x = *rc::gen::arbitrary<std::uint32_t>();
                for (int i = 0; i < 3072; ++i, x = x * 1664525 + 1013904223) {
                    data.pixels.push_back(std::uint8_t(x >> 24));
                    text.push_back(static_cast<char>(x >> 24));
                }
            }
            files.push_back(folder.path / std::to_string(left));
            write_text(files.back(), text);
        }
        normalise_as(data, data);
        const Cifar source(files);
        assert_same_in_memory(source, data);
    }));
}

// ---- Bad files ------------------------------------------------------------------------------
TEST(Cifar, NamesTheFileAndTheRecordThatIsWrong) {
    const Folder folder;
    const std::vector<fs::path> files{folder / "a", folder / "b"};
    const std::string good = record("\x02", 1, 2, 3);
    write_text(folder / "a", good);
    const auto opening = [&](const std::string& bytes) {
        write_text(folder / "b", bytes);
        return error_of([&] { const Cifar source(files); });
    };
    EXPECT_TRUE(holds(opening(good + record("\x0a", 1, 2, 3)),
                      "b' has label 10 in record 1 at "
                      "byte 3073",
                      "expected 0 to 9"));
    EXPECT_TRUE(holds(opening(""), "b' has 0 bytes", "records of 3073"));
    EXPECT_TRUE(holds(opening(good + "x"), "b' has 3074 bytes", "CIFAR-100"));
    EXPECT_EQ(opening(good), "no error");
    const std::vector<fs::path> twice{files[0], folder / "." / "a"};
    EXPECT_TRUE(holds(error_of([&] { const Cifar source(twice); }), "a' is given twice"));
    const Cifar source(files);
    const auto reader = source.open();
    fs::resize_file(folder / "b", 3000);
    EXPECT_EQ(read_one(*reader, 0).label, 2);
    EXPECT_TRUE(holds(error_of([&] { read_one(*reader, 1); }), "b' ends within record 0 at byte 0",
                      "expected 3073 bytes, found 3000"));
    EXPECT_TRUE(holds(error_of([&] { (void)cifar10(folder.path); }), "data_batch_1.bin",
                      "can't be opened"));
    EXPECT_TRUE(holds(error_of([] { const Cifar none(std::span<const fs::path>{}); }), "0 files"));
}

}  // namespace
