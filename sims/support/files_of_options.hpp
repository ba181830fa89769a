// FileOption, expect_outputs, read_input: files that options of a command line name.
#pragma once

#include <cstddef>           // size_t
#include <filesystem>        // files
#include <initializer_list>  // files of options
#include <string>            // texts of files
#include <system_error>      // folders

#include <fmt/format.h>  // sentences

#include <gx/core/error.hpp>      // Error
#include <gx/io/atomic_file.hpp>  // AtomicFile, output_target, same_output
#include <gx/io/read_file.hpp>    // read_file

namespace gx {

/// A file named on the command line, and the option that names it, as "--json".
struct FileOption {
    const char* option;
    std::filesystem::path file;  ///< empty: the option was not given
};

/// Make the folder of an output, and those above it.
/// Errors: gx::Error naming the option, the folder, and why there can be none.
inline void make_output_folder(const char* option, const std::filesystem::path& folder) {
    std::error_code why, hidden;
    std::filesystem::create_directories(folder, why);
    if (!std::filesystem::is_directory(folder, hidden))
        throw Error(
            fmt::format("{}: folder '{}' cannot be made: {}. Give one where files can be "
                        "written.",
                        option, folder.string(), (why ? why : hidden).message()));
}

/// Check before the work that all outputs can be written, and that none overwrites another or an
/// input; nothing is left behind. '-', which other programs take for standard output, is refused.
/// Errors: gx::Error naming the options and the file.
inline void expect_outputs(std::initializer_list<FileOption> outputs,
                           std::initializer_list<FileOption> inputs = {}) {
    const auto expect_different = [](const FileOption& a, const FileOption& b, const char* why) {
        if (a.file.empty() || b.file.empty() || !same_output(a.file, b.file)) return;
        throw Error(fmt::format("{} and {} both name file '{}': {}. Give each a file of its own.",
                                a.option, b.option, b.file.string(), why));
    };
    for (auto out = outputs.begin(); out != outputs.end(); ++out) {
        if (out->file == "-")
            throw Error(fmt::format(
                "{}: '-' is not standard output here: name a file, or /dev/stdout", out->option));
        try {
            if (!out->file.empty()) const detail::AtomicFile probe(out->file);
        } catch (const Error& e) {
            throw Error(fmt::format("{}: {}", out->option, e.what()));
        }
        for (const FileOption& in : inputs)
            expect_different(in, *out, "the input would be overwritten");
        for (auto other = outputs.begin(); other != out; ++other)
            expect_different(*other, *out, "one output would overwrite the other");
    }
}

/// Check that an output is not among the files of a run, which are in `folder`.
/// Errors: gx::Error naming the options and the folder.
inline void expect_outside(const FileOption& output, const FileOption& folder) {
    namespace fs = std::filesystem;
    if (output.file.empty()) return;
    // A folder may be there or be made later; links in a circle name no file and no folder.
    const auto canonical = [](const fs::path& path) {
        std::error_code circle;
        const fs::path found = fs::weakly_canonical(path, circle);
        return circle ? path.lexically_normal() : found;
    };
    const fs::path place = canonical(output_target(fs::absolute(output.file)));
    const fs::path within = canonical(fs::absolute(folder.file) / "");
    for (fs::path above = place.parent_path();; above = above.parent_path()) {
        if (above / "" == within / "")
            throw Error(fmt::format(
                "{} names file '{}' in folder '{}' of {}, where it could "
                "overwrite a file of the run. Name one elsewhere.",
                output.option, output.file.string(), folder.file.string(), folder.option));
        if (above == above.parent_path()) return;
    }
}

/// Read a text file.
/// Errors: gx::Error naming the option and the file, if it is a folder, cannot be read or holds
///         more than `most` bytes, as /dev/zero does.
[[nodiscard]] inline std::string read_input(const char* option, const std::filesystem::path& file,
                                            std::size_t most = 256 << 20) {
    try {
        return read_file(file, most);
    } catch (const Error& e) {
        throw Error(fmt::format("{}: {}", option, e.what()));
    }
}

}  // namespace gx
