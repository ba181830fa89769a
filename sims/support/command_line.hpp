// run_program: parses a command line, prints errors as sentences and returns the exit status.
#pragma once

#include <fcntl.h>   // open
#include <unistd.h>  // STDERR_FILENO

#include <algorithm>         // find, find_if
#include <cerrno>            // EBADF
#include <charconv>          // from_chars
#include <csignal>           // SIGXFSZ
#include <cmath>             // isfinite
#include <concepts>          // integral
#include <cstdint>           // whole numbers
#include <cstdio>            // stderr
#include <cstdlib>           // getenv
#include <exception>         // whatever is thrown
#include <filesystem>        // files
#include <initializer_list>  // files of options
#include <new>               // bad_alloc
#include <string>            // names
#include <string_view>       // names
#include <system_error>      // no thread is left
#include <type_traits>       // is_void
#include <utility>           // forward
#include <vector>            // names

#include <CLI/CLI.hpp>   // App
#include <fmt/format.h>  // sentences

#include <gx/core/error.hpp>     // Error, LostRank
#include <gx/io/nearest.hpp>     // suggested_name
#include "files_of_options.hpp"  // expect_outputs, read_input
#include "printable.hpp"         // printable

namespace gx {

// ---- Numbers --------------------------------------------------------------------------------

namespace detail::command_line {

/// Reads all of `text` as a finite decimal number; without signs '+', blanks or base prefixes.
template <class T>
[[nodiscard]] bool read_number(const std::string& text, T& value) {
    const char* const end = text.data() + text.size();
    const auto [rest, trouble] = std::from_chars(text.data(), end, value);
    if (trouble != std::errc{} || rest != end) return false;
    return std::isfinite(static_cast<double>(value));
}

template <class T>
[[nodiscard]] CLI::Validator range(T least, T most, const std::string& shown) {
    const auto check = [=](const std::string& text) -> std::string {
        T x{};
        if (read_number(text, x) && x >= least && x <= most) return {};
        return fmt::format("'{}' is not a {}number {}", text, std::integral<T> ? "whole " : "",
                           shown);
    };
    return {check, shown};
}

}  // namespace detail::command_line

/// Accept finite numbers in [least, most]; `shown` is the range in help and errors ("above 0").
/// CLI::Range would let NaN pass and print limits as 0.000000.
[[nodiscard]] inline CLI::Validator number_in(double least, double most, std::string shown = {}) {
    if (shown.empty()) shown = fmt::format("from {} to {}", least, most);
    return detail::command_line::range(least, most, shown);
}
/// Accept numbers above 0 that are small enough to be multiplied.
[[nodiscard]] inline CLI::Validator above_zero() { return number_in(1e-12, 1e12, "above 0"); }
/// Accept whole numbers in [least, most].
[[nodiscard]] inline CLI::Validator count_in(std::int64_t least, std::int64_t most) {
    return detail::command_line::range(least, most, fmt::format("from {} to {}", least, most));
}

// ---- Parsing --------------------------------------------------------------------------------

/// The words of a command line, those with other characters than letters, digits and "-+=.,_/:@%"
/// in quotes, as a shell reads them.
[[nodiscard]] inline std::string command_line(int argc, char** argv) {
    std::string out;
    for (int i = 0; i < argc; ++i) {
        const std::string_view word = argv[i];
        const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
            return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                   std::string_view("-+=.,_/:@%").find(c) != std::string_view::npos;
        });
        if (i > 0) out += ' ';
        if (plain) {
            out += word;
            continue;
        }
        out += '\'';
        for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
        out += '\'';
    }
    return out;
}

namespace detail::command_line {

/// Refuse for every option what CLI11 accepts: -1 and numbers of any length for unsigned options,
/// 0x10, NaN, infinities, empty words. Whole numbers are decimal: CLI11 reads 010 as 8.
inline void check_values(CLI::App& app) {
    for (CLI::Option* o : app.get_options()) {
        const std::string type = o->get_type_name();
        const auto expect = [&]<class T>(T, const char* expected) {
            o->check([=](const std::string& text) -> std::string {
                T value{};
                if (read_number(text, value)) return {};
                return fmt::format("'{}' is not {}", text, expected);
            });
            if constexpr (std::integral<T>)
                o->transform(CLI::Validator(
                    [](std::string& text) -> std::string {
                        T value{};
                        if (read_number(text, value)) text = std::to_string(value);
                        return {};
                    },
                    ""));
        };
        if (type.starts_with("UINT"))
            expect(std::uint64_t{}, "a whole number from 0 to 18446744073709551615");
        else if (type.starts_with("INT")) expect(std::int64_t{}, "a whole number");
        else if (type.starts_with("FLOAT")) expect(double{}, "a number");
        else if (type.starts_with("TEXT"))
            o->check([](const std::string& text) -> std::string {
                return text.empty() ? "the value is empty" : "";
            });
    }
}

/// The first option that is given twice though it holds one value, or as "--name=" without one.
[[nodiscard]] inline std::string misused_option(const CLI::App& app, int argc, char** argv) {
    std::vector<const CLI::Option*> seen;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--") break;
        const std::string name(word.substr(0, word.find('=')));
        if (!name.starts_with("-")) continue;
        const CLI::Option* o = app.get_option_no_throw(name);
        if (o == nullptr) continue;
        if (word.size() == name.size() + 1) return name + ": the value is empty";
        const bool list = o->get_expected_max() > 1;
        if (!list && std::find(seen.begin(), seen.end(), o) != seen.end())
            return name + ": this option is given twice";
        seen.push_back(o);
    }
    return "";
}

}  // namespace detail::command_line

/// fmt::print to standard error, which may be closed or full: that is no reason to end.
template <class... A>
void print_error(fmt::format_string<A...> format, A&&... values) {
    (void)std::fputs(fmt::format(format, std::forward<A>(values)...).c_str(), stderr);
}

namespace detail::command_line {

/// Opens /dev/null in the place of each standard stream that is closed, or the next file that is
/// opened would be the stream. Of standard output what is printed is an error still.
inline void open_standard_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
        (void)::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    }
}

/// How the options are listed: `--help` of ./gx COMMAND describes the command instead, so it hands
/// its own words over in GX_COMMAND.
[[nodiscard]] inline std::string list_of_options() {
    const char* const command = std::getenv("GX_COMMAND");
    return command == nullptr ? "--help lists the options."
                              : printable(command) + " --options lists the options.";
}

inline void print_unknown(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* o : app.get_options())
        for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
    const std::vector<std::string_view> views(names.begin(), names.end());
    for (const std::string& word : app.remaining()) {
        if (word == "--") continue;
        const std::string typed = word.substr(0, word.find('='));
        const std::string_view near = suggested_name(typed, views);
        const bool option = typed.starts_with("-");
        print_error("{}: {} '{}'.{} {}\n", app.get_name(),
                    option ? "unknown option" : "unexpected word", printable(word),
                    near.empty() ? "" : fmt::format(" Did you mean '{}'?", near),
                    list_of_options());
        if (option) break;
    }
}

}  // namespace detail::command_line

/// Parse the command line and call `work`. The error for an unknown option names the nearest.
/// Exit status: what `work` returns, or 0 if it returns nothing; 1 for work that failed (a lost
///              rank, a check, no memory); 2 for a command line or an input that cannot be used,
///              which is what other gx::Errors stand for, or a standard output that does not take
///              what was printed.
template <class Work>
int run_program(CLI::App& app, int argc, char** argv, const Work& work) {
    detail::command_line::open_standard_streams();
    (void)std::signal(SIGXFSZ, SIG_IGN);  // a write above `ulimit -f` returns EFBIG
    const auto failed = [&](std::string_view sentence, int status) {
        if (sentence.starts_with("gx: ")) sentence.remove_prefix(4);  // the program's name says it
        print_error("{}: {}\n", app.get_name(), printable(sentence, "\n\t"));
        return status;
    };
    const auto printed = [&](int status) {
        if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
        const int lost = failed(
            "standard output cannot be written, and part of the text is lost. Free some space, or "
            "direct it to another file.",
            2);
        return status == 0 ? lost : status;
    };
    try {
        detail::command_line::check_values(app);
        const std::string misused = detail::command_line::misused_option(app, argc, argv);
        if (!misused.empty())
            return failed(misused + ". " + detail::command_line::list_of_options(), 2);
        app.parse(argc, argv);
        if constexpr (std::is_void_v<decltype(work())>) {
            work();
            return printed(0);
        } else {
            return printed(work());
        }
    } catch (const CLI::Success& e) {
        return printed(app.exit(e));
    } catch (const CLI::ExtrasError&) {
        detail::command_line::print_unknown(app);
        return 2;
    } catch (const CLI::ParseError& e) {
        return failed(fmt::format("{}. {}", e.what(), detail::command_line::list_of_options()), 2);
    } catch (const LostRank& e) {
        return failed(e.what(), 1);
    } catch (const Error& e) {
        return failed(e.what(), 2);
    } catch (const std::bad_alloc&) {
        return failed(
            "there is not enough memory for this. Ask for smaller batches or less work, "
            "or raise the limit (ulimit -v).",
            1);
    } catch (const std::system_error& e) {
        if (std::ferror(stdout) != 0) return printed(0);  // a print that failed
        if (e.code() != std::errc::resource_unavailable_try_again) return failed(e.what(), 1);
        return failed(
            "a thread can't be started. Ask for fewer ranks, or raise the limits of processes and "
            "memory (ulimit -u, ulimit -v).",
            1);
    } catch (const std::exception& e) {
        return failed(e.what(), 1);
    }
}

}  // namespace gx
