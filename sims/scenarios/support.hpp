// Scenario: what a scenario prints: published and simulated values, errors, corrections.
#pragma once

#include <algorithm>  // min
#include <cmath>      // abs
#include <cstdio>     // FILE
#include <optional>   // values that are not published
#include <stdexcept>  // runtime_error
#include <string>     // sentences
#include <utility>    // move
#include <vector>     // rows

#include <fmt/format.h>       // tables
#include <nlohmann/json.hpp>  // --json

#include <gx/io/atomic_file.hpp>  // write_file

namespace gx::scenario {

/// One result. `published` is empty where the source gives none: a what-if.
struct Row {
    std::string what{}, unit{};
    std::optional<double> published{};
    double simulated = 0;
    double most_error = 0;  ///< held to by the scenario's test; 0: the row promises nothing

    [[nodiscard]] bool in_percent() const { return unit == "%"; }
    /// Points for percentages, else percent of the published value.
    [[nodiscard]] double error() const {
        return in_percent() ? simulated - *published : 100 * (simulated / *published - 1);
    }
};

/// `text` in lines of at most 100 columns, those after the first indented by so much.
[[nodiscard]] inline std::string wrapped(const std::string& text, std::size_t indent) {
    std::string out;
    std::size_t column = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        const bool fits = column + (end - at) <= 100;
        if (!fits) out += "\n" + std::string(indent, ' ');
        else if (at > 0) out += ' ';
        column = (fits ? column : indent) + (end - at) + 1;
        out.append(text, at, end - at);
        at = end + 1;
    }
    return out;
}

class Scenario {
public:
    Scenario(std::string title, std::string source)
        : title_(std::move(title)), source_(std::move(source)) {}

    /// A correction or assumption that holds for all rows.
    void in_force(std::string sentence) { in_force_.push_back(std::move(sentence)); }
    void add(Row row) { rows_.push_back(std::move(row)); }
    /// What the rows show, and what they do not explain.
    void say(std::string sentence) { remarks_.push_back(std::move(sentence)); }

    void print() const {
        fmt::print("{}\nSource: {}\n", title_, source_);
        for (const std::string& s : in_force_) fmt::print("{}\n", wrapped("In force: " + s, 4));
        fmt::print("\n{:64} {:>10} {:>10} {:>10}\n", "", "published", "simulated", "error");
        for (const Row& r : rows_) {
            const std::string what = r.what + ", " + r.unit;
            const int digits = std::abs(r.simulated) < 100 ? 1 : 0;
            fmt::print("{:64} {:>10} {:>10} {:>10}\n", what,
                       r.published ? fmt::format("{:.{}f}", *r.published, digits) : "-",
                       fmt::format("{:.{}f}", r.simulated, digits),
                       r.published
                           ? fmt::format("{:+.1f}{}", r.error(), r.in_percent() ? " pt" : " %")
                           : "");
        }
        for (const std::string& s : remarks_) fmt::print("\n{}\n", wrapped(s, 0));
    }
    /// Errors: runtime_error, exit status 1, for the first row further off than it promises.
    void hold() const {
        for (const Row& r : rows_)
            if (r.published && r.most_error > 0 && std::abs(r.error()) > r.most_error)
                throw std::runtime_error(fmt::format(
                    "{}: {:.1f} {} where {:.1f} is published: further off than the {:.1f} that "
                    "this scenario promises",
                    r.what, r.simulated, r.unit, *r.published, r.most_error));
    }
    void write(const std::string& path) const {
        nlohmann::ordered_json rows = nlohmann::ordered_json::array();
        for (const Row& r : rows_) {
            nlohmann::ordered_json j{{"what", r.what}, {"unit", r.unit}};
            if (r.published) j["published"] = *r.published;
            j["simulated"] = r.simulated;
            rows.push_back(j);
        }
        write_file(path, nlohmann::ordered_json{{"title", title_},
                                                {"source", source_},
                                                {"in_force", in_force_},
                                                {"rows", rows},
                                                {"remarks", remarks_}}
                                 .dump(1) +
                             "\n");
    }

private:
    std::string title_, source_;
    std::vector<std::string> in_force_{}, remarks_{};
    std::vector<Row> rows_{};
};

using Json = nlohmann::ordered_json;

/// A point of a prediction: see tools/predict/case_model.hpp.
struct PredictedPoint {
    int index = 0, gpus = 0;
    double value = 0, efficiency_pct = 0, step_ms = 0;
};
struct Prediction {
    std::string corrections{};  ///< what it rests on, for in_force()
    std::vector<PredictedPoint> points{};
};

/// A published case, whole, from reference/published/cases.json.
[[nodiscard]] Json published(const std::string& id);

/// What gx_predict makes of a case: a published one's conditions, and these points.
[[nodiscard]] Prediction predicted(const Json& conditions, const Json& points);

/// main() of a scenario: makes it, prints it, and writes it where --json says.
int run(int argc, char** argv, const char* name, Scenario (*make)());

}  // namespace gx::scenario
