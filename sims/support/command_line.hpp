// run_program: parses a command line, tells errors as sentences, answers the exit status.
#pragma once

#include <cstdio>  // stderr
#include <string>  // names
#include <vector>  // names

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

/// Parses and calls `work`. An unknown option is answered with the nearest that there is; an Error
/// with its sentence. Exit status: 0, 1 for an Error, 2 for a command line that can't be read.
template <class Work>
int run_program(CLI::App& app, int argc, char** argv, const Work& work) {
    try {
        app.parse(argc, argv);
        work();
        return 0;
    } catch (const CLI::Success& e) {
        return app.exit(e);
    } catch (const CLI::ExtrasError&) {
        std::vector<std::string> names;
        for (const CLI::Option* o : app.get_options())
            for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
        const std::vector<std::string_view> views(names.begin(), names.end());
        for (const std::string& word : app.remaining()) {
            const std::string typed = word.substr(0, word.find('='));
            const std::string_view near = nearest_name(typed, views);
            fmt::print(stderr, "{}: unknown option '{}'.{} --help lists the options.\n",
                       app.get_name(), word,
                       near.empty() ? "" : fmt::format(" Did you mean '{}'?", near));
            if (typed.starts_with("-")) break;
        }
        return 2;
    } catch (const CLI::ParseError& e) {
        fmt::print(stderr, "{}: {}. --help lists the options.\n", app.get_name(), e.what());
        return 2;
    } catch (const Error& e) {
        fmt::print(stderr, "{}: {}\n", app.get_name(), e.what());
        return 1;
    }
}

}  // namespace gx
