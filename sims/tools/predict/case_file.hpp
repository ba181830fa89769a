// read_cases: published results as JSON: conditions, given points, points to predict.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tools/common/json.hpp>  // Json

namespace gx::tools::predict {

/// One row of `measured`. A target's published value is apart from what a prediction may see.
struct Point {
    enum class Role : unsigned char { base, given, target, other };
    Role role = Role::other;
    int index = 0;             ///< place in `measured`
    int gpus = 0, nodes = 0;   ///< 0: not said
    double batch_per_gpu = 0;  ///< 0: not said
    std::string unit{}, phase{}, variant{};
    std::optional<double> given{};      ///< of a base or given point
    std::optional<double> published{};  ///< of a target, for the score alone
    std::optional<double> published_efficiency_pct{};
    std::string refused{};  ///< why a target's published number is not scored
};

/// A case, or the sentence that says what is wrong with it.
struct Case {
    std::string id{}, group{}, split{};
    std::string file{};    ///< as it was named
    std::string source{};  ///< the publication, up to its version: what is held out together
    bool scored = true;
    Json conditions = Json::object();
    std::vector<Point> points{};
    std::string error{};

    [[nodiscard]] bool asks() const;  ///< Whether a point has the role target.
    /// Whether constants may be fitted on it: the split is neither "reference" nor "held_out".
    [[nodiscard]] bool calibrates() const { return split != "reference" && split != "held_out"; }
};

/// Every case of a file, in order; a case that is wrong holds its error, the others are whole.
/// Errors: gx::Error when the text is no JSON (file, line and column) or not an array.
[[nodiscard]] std::vector<Case> read_cases(std::string_view text, const std::string& file);

/// "field 'measured[INDEX].NAME': ", which opens an error's sentence.
[[nodiscard]] std::string field(int index, std::string_view name);

/// Text of a field, whatever it holds: a list is joined by ", "; an object is empty.
[[nodiscard]] std::string text_of(const Json& value);
[[nodiscard]] std::string text_at(const Json& object, std::string_view name);

/// A number, also one that is written as text: "2,800", "~16"; not a number: 0.
[[nodiscard]] double written_number(const Json& value);

}  // namespace gx::tools::predict
