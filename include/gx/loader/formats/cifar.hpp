// Cifar: the binary files of CIFAR-10 and CIFAR-100, of which a rank reads its share.
#pragma once

#include <cstdint>     // int64_t
#include <filesystem>  // path
#include <memory>      // shared_ptr
#include <span>        // files
#include <string>      // class names
#include <vector>      // files

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/io/random_access_file.hpp>  // RandomAccessFile
#include <gx/loader/source.hpp>          // Source

namespace gx {

/// Which labels are read: those of CIFAR-10, or one of the two of CIFAR-100.
enum class CifarLabels : unsigned char { ten, coarse20, fine100 };

/// Images of 3 x 32 x 32 in files of records of one length; models Source.
///
///     const auto [train, test] = gx::cifar10("cifar-10-batches-bin");
///     trainer.train(world, gx::Sources{train, test});
///
/// Format: a record is the label (1 byte; CIFAR-100: the coarse, then the fine one), then 1024 red,
///         1024 green and 1024 blue pixels, each plane row-major.
/// Errors: gx::Error naming the file and the record: a file that can't be read, is empty, or ends
///         within a record; a label that is out of range; names for more or fewer classes; a file
///         that gets shorter later.
/// Cost:   reads all files once when it is built, for mean, deviation, ContentHash and largest
///         class; then one open file for each, and a reader has room for one batch.
/// Source: A. Krizhevsky, www.cs.toronto.edu/~kriz/cifar.html, "Binary version".
class Cifar {
public:
    /// `class_names`: one a class, which a checkpoint keeps and predictions print, or none.
    GX_DECL explicit Cifar(std::span<const std::filesystem::path> files,
                           CifarLabels labels = CifarLabels::ten,
                           std::vector<std::string> class_names = {});

    [[nodiscard]] SourceInfo info() const { return info_; }
    [[nodiscard]] GX_DECL std::unique_ptr<SampleReader> open() const;
    [[nodiscard]] std::int64_t largest_class() const { return largest_class_; }
    [[nodiscard]] std::uint64_t content() const { return content_; }
    /// Test images are normalised as the training images are.
    void normalise_as(const Cifar& from) {
        info_.mean = from.info_.mean;
        info_.deviation = from.info_.deviation;
    }

private:
    std::vector<std::shared_ptr<const RandomAccessFile>> files_{};
    CifarLabels labels_;
    SourceInfo info_{};
    std::int64_t largest_class_ = 0;
    std::uint64_t content_ = 0;
};
static_assert(explain_source<Cifar>());

/// Training set and test set, normalised alike.
struct CifarSplit {
    Cifar train, test;
};
/// Those of data_batch_1.bin to data_batch_5.bin and test_batch.bin in `folder`, with the class
/// names in batches.meta.txt, where it is there.
[[nodiscard]] GX_DECL CifarSplit cifar10(const std::filesystem::path& folder);
/// Those of train.bin and test.bin in `folder`, with the class names in fine_label_names.txt or
/// coarse_label_names.txt, where it is there.
[[nodiscard]] GX_DECL CifarSplit cifar100(const std::filesystem::path& folder,
                                          CifarLabels labels = CifarLabels::fine100);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/formats/impl/cifar.ipp>
#endif
