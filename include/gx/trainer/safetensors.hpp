// Safetensors files: named float tensors and text, written whole or not at all.
#pragma once

#include <cstdint>     // int64_t
#include <filesystem>  // path
#include <map>         // tensors by name
#include <span>        // values
#include <string>      // names
#include <vector>      // tensors

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// One tensor to be written. Shapes: the product of `shape` is values.size().
struct NamedTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::span<const float> values;
};

/// Contents of a safetensors file.
struct SafetensorsFile {
    struct Tensor {
        std::vector<std::int64_t> shape;
        std::vector<float> values;    ///< none of a tensor that is no F32, F64, F16 or BF16
        std::string element = "F32";  ///< as the file names it
    };
    std::map<std::string, Tensor> tensors;
    std::map<std::string, std::string> metadata;
    bool summed = false;  ///< whether it has a checksum of gx, which was verified
};

/// Writes tensors as F32, in the order given, and `metadata`. That is in "__metadata__", with a
/// checksum in its field "gx.crc32": of names, shapes and numbers, so that it still fits where
/// another program has written them again in another order.
/// Errors: as write_file.
/// Source: github.com/huggingface/safetensors, README.md, section "Format".
GX_COLD GX_DECL void write_safetensors(const std::filesystem::path& path,
                                       const std::vector<NamedTensor>& tensors,
                                       const std::map<std::string, std::string>& metadata = {});

/// Reads every tensor and the metadata; verifies the checksum if the file has one. F16 and BF16
/// become float as they are, F64 is rounded; of others the shape alone is kept, and those of less
/// than a byte (F4, F6) are refused.
/// Errors: gx::Error naming the file and the field for a file that is missing, short or malformed
///         (tensors must fill the data without holes or overlaps), or whose checksum differs.
/// Cost:   allocates no more than the file is long, and its header as JSON.
GX_COLD [[nodiscard]] GX_DECL SafetensorsFile read_safetensors(const std::filesystem::path& path);

/// Reads the metadata alone; tensors and checksum are not looked at.
/// Errors: as read_safetensors, for the header.
GX_COLD [[nodiscard]] GX_DECL std::map<std::string, std::string> read_safetensors_metadata(
    const std::filesystem::path& path);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/safetensors.ipp>
#endif
