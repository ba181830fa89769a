// The program of several test files: --file=PATH runs the tests of one of them, of these as ever
// those that fit --gtest_filter.
#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

namespace {

/// Whether one of the patterns "A.*:B.*" fits.
bool fits_one(const std::string& name, std::string_view patterns) {
    while (!patterns.empty()) {
        const std::string pattern(patterns.substr(0, patterns.find(':')));
        if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return true;
        patterns.remove_prefix(std::min(patterns.size(), pattern.size() + 1));
    }
    return false;
}
/// As --gtest_filter: patterns that fit, and behind "-" some that do not.
bool fits(const std::string& name, std::string_view filter) {
    const auto minus = std::min(filter.find('-'), filter.size());
    const std::string_view wanted = filter.substr(0, minus);
    return (wanted.empty() || fits_one(name, wanted)) &&
           (minus == filter.size() || !fits_one(name, filter.substr(minus + 1)));
}

/// "Suite.Name:Suite.Name ..." of the tests in `file` that fit `given`.
std::string tests_in(std::string_view file, std::string_view given) {
    std::string filter;
    const auto& all = *testing::UnitTest::GetInstance();
    for (int s = 0; s < all.total_test_suite_count(); ++s)
        for (int t = 0; t < all.GetTestSuite(s)->total_test_count(); ++t)
            if (const auto& test = *all.GetTestSuite(s)->GetTestInfo(t); test.file() == file)
                if (const auto name = std::string(test.test_suite_name()) + '.' + test.name();
                    fits(name, given))
                    filter += name + ':';
    return filter;
}

}  // namespace

int main(int argc, char** argv) {
    constexpr std::string_view option = "--file=";
    std::string file;
    int kept = 1;
    for (int i = 1; i < argc; ++i)
        if (std::string_view(argv[i]).starts_with(option)) file = argv[i] + option.size();
        else argv[kept++] = argv[i];
    argv[kept] = nullptr;
    argc = kept;
    testing::InitGoogleMock(&argc, argv);
    if (!file.empty()) {
        const std::string filter = tests_in(file, testing::GTEST_FLAG(filter));
        if (filter.empty()) {
            std::fprintf(stderr, "%s has no such test in this program\n", file.c_str());
            return 1;
        }
        testing::GTEST_FLAG(filter) = filter;
    }
    return RUN_ALL_TESTS();
}
