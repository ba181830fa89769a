// IdxFiles: a data set in two IDX files, of which a rank reads its share.
#pragma once

#include <cstdint>     // int64_t
#include <filesystem>  // path
#include <memory>      // shared_ptr
#include <string>      // name
#include <vector>      // names

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/io/random_access_file.hpp>  // RandomAccessFile
#include <gx/loader/source.hpp>          // Source

namespace gx {

/// Images of one channel and their labels, read in place; models Source. It gives the samples of
/// read_idx_dataset, of files that need not fit into memory.
///
///     gx::IdxFiles train("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 10, "mnist");
///     gx::IdxFiles test("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 10, "mnist");
///     test.normalise_as(train);
///     trainer.train(world, gx::Sources{train, test});
///
/// Format: as read_idx: images (count, H, W), labels (count); plain, since gzip has no places.
/// Errors: gx::Error naming the file, what was expected and what was found: another magic number,
///         sizes that are 0 or not those of the file, counts that differ, the first label not below
///         `classes`; images of more than 2^28 pixels; a file packed by gzip; one that gets shorter
///         later.
/// Cost:   reads both files once when it is built, for mean, deviation, ContentHash and largest
///         class; then two open files, and a reader has room for one batch.
/// Source: as read_idx.
class IdxFiles {
public:
    /// `classes`: 0 is one more than the largest label, and at least 2.
    GX_DECL IdxFiles(const std::filesystem::path& images, const std::filesystem::path& labels,
                     int classes, std::string name);

    [[nodiscard]] SourceInfo info() const { return info_; }
    [[nodiscard]] GX_DECL std::unique_ptr<SampleReader> open() const;
    [[nodiscard]] std::int64_t largest_class() const { return largest_class_; }
    [[nodiscard]] std::uint64_t content() const { return content_; }
    /// Test images are normalised as the training images are.
    void normalise_as(const IdxFiles& from) {
        info_.mean = from.info_.mean;
        info_.deviation = from.info_.deviation;
    }
    /// Sets the class names, one for each class: a checkpoint keeps them, and predictions print
    /// them. IDX files hold class numbers only.
    /// Errors: gx::Error where there are more or fewer.
    GX_DECL void name_classes(std::vector<std::string> names);

private:
    std::shared_ptr<const RandomAccessFile> images_, labels_;
    SourceInfo info_{};
    std::int64_t largest_class_ = 0;
    std::uint64_t content_ = 0;
};
static_assert(explain_source<IdxFiles>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/formats/impl/idx_files.ipp>
#endif
