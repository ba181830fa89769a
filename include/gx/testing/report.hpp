// ConformanceReport: the violations that checks found, and counts of what they compared.
#pragma once

#include <cstdint>      // counts
#include <string>       // sentences
#include <string_view>  // names of checks
#include <vector>       // violations

namespace gx::testing {

/// A broken promise: the name of the check that found it, and a sentence with numbers.
struct Violation {
    std::string check;
    std::string sentence;
};

/// The result of one or more checks.
///
///     EXPECT_TRUE(report.empty()) << report.text();
///
/// Of each check at most `kept_per_check` violations are kept, and all are counted.
class ConformanceReport {
public:
    static constexpr int kept_per_check = 8;

    void add(std::string_view check, std::string sentence);
    /// Records that a check was not made, and why.
    void skip(std::string_view check, std::string reason);

    [[nodiscard]] bool empty() const { return violations.empty(); }
    /// Whether the check of this name found a violation.
    [[nodiscard]] bool rejected_by(std::string_view check) const;
    /// One line for each violation: the check's name, then its sentence.
    [[nodiscard]] std::string text() const;
    /// "412 reductions, 96310 values compared, 5120 messages, 3 violations"
    [[nodiscard]] std::string summary() const;

    std::vector<Violation> violations{};  ///< those kept
    std::vector<Violation> skipped{};     ///< checks that the world could not run
    std::int64_t found = 0;               ///< violations, kept or not
    std::int64_t reductions = 0, values = 0, messages = 0;
    bool hangs = false;  ///< a reduction without a fault met its deadline: no more are made
};

}  // namespace gx::testing

#include <gx/core/decl.hpp>  // GX_HEADER_ONLY
#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/report.ipp>
#endif
