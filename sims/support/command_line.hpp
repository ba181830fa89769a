// run_program: parses a command line, tells errors as sentences, answers the exit status.
#pragma once

#include <charconv>    // from_chars
#include <cstdint>     // whole numbers
#include <cstdio>      // stderr
#include <exception>   // whatever is thrown
#include <filesystem>  // files to be written
#include <fstream>     // trying to write them
#include <new>         // bad_alloc
#include <string>      // names
#include <vector>      // names

#include <CLI/CLI.hpp>   // App
#include <fmt/format.h>  // sentences

#include <gx/core/error.hpp>    // Error
#include <gx/core/nearest.hpp>  // nearest_name

namespace gx {

/// Accepts a number from `least` to `most`. The option's help shows `shown`, as in "ABOVE 0".
/// Errors: a sentence that says which numbers are accepted, for what is none or another.
[[nodiscard]] inline CLI::Validator number_in(double least, double most, const std::string& shown) {
    const auto check = [=](const std::string& text) -> std::string {
        double x = 0;
        if (CLI::detail::lexical_cast(text, x) && x >= least && x <= most) return {};
        return fmt::format("'{}' is not a number {}", text, shown);
    };
    return {check, shown};
}
/// Above 0, and small enough to be multiplied.
[[nodiscard]] inline CLI::Validator above_zero() { return number_in(1e-12, 1e12, "above 0"); }
/// Whole numbers from `least` to `most`; that they are whole is checked by the option's type.
[[nodiscard]] inline CLI::Validator count_in(std::int64_t least, std::int64_t most) {
    return number_in(static_cast<double>(least), static_cast<double>(most),
                     fmt::format("from {} to {}", least, most));
}

/// For work that takes long: a file that can't be written is found before it, not after it. An
/// empty name is of a file that nobody asked for.
/// Errors: gx::Error naming the option, such as "--json", and the file. Nothing is left behind.
inline void expect_writable(const char* option, const std::filesystem::path& file) {
    if (file.empty()) return;
    const std::filesystem::path probe = file.string() + ".gx-probe";
    std::error_code ignored;
    const bool folder = std::filesystem::is_directory(file, ignored);
    const bool good = !folder && std::ofstream(probe).put('\n').flush().good();
    std::filesystem::remove(probe, ignored);
    if (!good)
        throw Error(fmt::format("{}: file '{}' can't be written. Choose a file in a folder that "
                                "exists and is writable.",
                                option, file.string()));
}

namespace detail::command_line {

template <class T>
[[nodiscard]] std::string check_number(const std::string& text, const char* expected) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [rest, trouble] = std::from_chars(text.data(), end, value);
    if (trouble == std::errc{} && rest == end) return "";
    return fmt::format("'{}' is not {}", text, expected);
}

/// CLI11 takes -1 and numbers of any length for an unsigned option, and does not say what a word
/// that is no number should have been.
inline void check_numbers(CLI::App& app) {
    for (CLI::Option* o : app.get_options()) {
        const std::string type = o->get_type_name();
        const auto expect = [&](auto check, const char* expected) {
            o->check([=](const std::string& text) { return check(text, expected); });
        };
        if (type.starts_with("UINT"))
            expect(check_number<std::uint64_t>, "a whole number from 0 to 18446744073709551615");
        else if (type.starts_with("INT")) expect(check_number<std::int64_t>, "a whole number");
        else if (type.starts_with("FLOAT")) expect(check_number<double>, "a number");
    }
}

inline void tell_unknown(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* o : app.get_options())
        for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
    const std::vector<std::string_view> views(names.begin(), names.end());
    for (const std::string& word : app.remaining()) {
        const std::string typed = word.substr(0, word.find('='));
        const std::string_view near = nearest_name(typed, views);
        const bool option = typed.starts_with("-");
        fmt::print(stderr, "{}: {} '{}'.{} --help lists the options.\n", app.get_name(),
                   option ? "unknown option" : "unexpected word", word,
                   near.empty() ? "" : fmt::format(" Did you mean '{}'?", near));
        if (option) break;
    }
}

}  // namespace detail::command_line

/// Parses and calls `work`. An unknown option is answered with the nearest that there is; an
/// exception with its sentence.
/// Exit status: 0, 1 for an exception, 2 for a command line that can't be read.
template <class Work>
int run_program(CLI::App& app, int argc, char** argv, const Work& work) {
    const auto tell = [&](std::string_view sentence) {
        if (sentence.starts_with("gx: ")) sentence.remove_prefix(4);  // the program's name says it
        fmt::print(stderr, "{}: {}\n", app.get_name(), sentence);
        return 1;
    };
    try {
        detail::command_line::check_numbers(app);
        app.parse(argc, argv);
        work();
        return 0;
    } catch (const CLI::Success& e) {
        return app.exit(e);
    } catch (const CLI::ExtrasError&) {
        detail::command_line::tell_unknown(app);
        return 2;
    } catch (const CLI::ParseError& e) {
        fmt::print(stderr, "{}: {}. --help lists the options.\n", app.get_name(), e.what());
        return 2;
    } catch (const std::bad_alloc&) {
        return tell("there is not enough memory for this. Ask for smaller batches or less work, or "
                    "raise the limit (ulimit -v).");
    } catch (const std::exception& e) {
        return tell(e.what());
    }
}

}  // namespace gx
