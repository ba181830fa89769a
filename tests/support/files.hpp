// What tests of files share: a folder, texts, the sentence of an error and what it holds.
#pragma once

#include <unistd.h>  // access, getpid

#include <algorithm>     // replace
#include <cstdint>       // uintmax_t
#include <cstdlib>       // getenv
#include <filesystem>    // folders
#include <fstream>       // files
#include <iterator>      // istreambuf_iterator
#include <string>        // text
#include <system_error>  // error_code

#include <gtest/gtest.h>

#include <gx/core/error.hpp>  // Error

namespace testing_support {

/// Where tests keep files: in memory, where the system has room there and TMPDIR names no place. A
/// disk makes each of a thousand checkpoints wait until it is synced.
inline std::filesystem::path place_for_files() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code error;
    const auto space = std::filesystem::space(memory, error);
    const bool has_room = !error && space.available >= std::uintmax_t{1} << 30;
    if (std::getenv("TMPDIR") == nullptr && has_room && ::access(memory.c_str(), W_OK) == 0)
        return memory;
    return std::filesystem::temp_directory_path();
}

/// Of the present test, with no '/', as those with parameters have.
inline std::string test_name() {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '-');
    return name;
}

/// A folder for one test, empty at first and gone at the end; each is another one.
struct Folder {
    static inline int made = 0;
    std::filesystem::path path = place_for_files() / ("gx_" + std::to_string(getpid()) + "_" +
                                                      test_name() + "_" + std::to_string(made++));
    Folder() {
        std::filesystem::remove_all(path);
        std::filesystem::create_directories(path);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path); }
    [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path / name; }
};

inline std::string read_text(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

/// The sentence of the gx::Error that `f` throws.
template <class F>
std::string error_of(F f) {
    try {
        f();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "no error";
}

/// Whether `text` holds each of `parts`; the first that is missing is told.
template <class... Parts>
::testing::AssertionResult holds(const std::string& text, Parts... parts) {
    for (const std::string& part : {std::string(parts)...})
        if (text.find(part) == std::string::npos)
            return ::testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
    return ::testing::AssertionSuccess();
}

}  // namespace testing_support
