#include <tools/predict/case_file.hpp>  // first, so the header is seen to stand alone

#include <string>  // sentences

#include <gmock/gmock.h>  // HasSubstr

#include <gx/core/error.hpp>  // Error

namespace {

using namespace gx::tools::predict;
using gx::tools::Json;
using testing::HasSubstr;

std::string error_of(const std::string& case_text) {
    const auto cases = read_cases("[" + case_text + "]", "cases.json");
    return cases.at(0).error;
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(CaseFile, ReadsRolesAndKeepsPublishedValuesApart) {
    const auto cases = read_cases(R"([{"id": "a", "conditions": {"gpu": ["V100", "P100"]},
        "measured": [{"gpus": 1, "role": "base", "value": 100, "unit": "img/s"},
                     {"value": [1, 2], "unit": "Gb/s"},
                     {"gpus": 8, "nodes": 2, "role": "target", "value": 700, "batch": 32,
                      "unit": "img/s"},
                     {"gpus": 16, "role": "target"}]}])",
                                  "cases.json");
    ASSERT_EQ(cases.size(), 1u);
    EXPECT_EQ(cases[0].error, "");
    ASSERT_EQ(cases[0].points.size(), 4u);
    const auto& points = cases[0].points;
    EXPECT_EQ(points[0].role, Point::Role::base);
    EXPECT_EQ(points[0].given, 100.0);
    EXPECT_EQ(points[1].role, Point::Role::other);
    EXPECT_EQ(points[2].given, std::nullopt);
    EXPECT_EQ(points[2].published, 700.0);
    EXPECT_EQ(points[2].batch_per_gpu, 32.0);
    EXPECT_EQ(points[3].index, 3);
    EXPECT_EQ(points[3].published, std::nullopt);
    EXPECT_EQ(text_at(cases[0].conditions, "gpu"), "V100, P100");
}

// ---- Bad inputs ---------------------------------------------------------------------
TEST(CaseFile, NamesFileAndLineOfBadJson) {
    try {
        (void)read_cases("[\n{\"id\": \"a\",,}\n]", "mine.json");
        FAIL() << "bad JSON was taken";
    } catch (const gx::Error& e) {
        EXPECT_THAT(e.what(), HasSubstr("mine.json: not JSON"));
        EXPECT_THAT(e.what(), HasSubstr("line 2"));
    }
    EXPECT_THROW((void)read_cases("{}", "mine.json"), gx::Error);
}

TEST(ParseJson, RefusesDeepNestingAndFieldsGivenTwice) {
    const auto told = [](const std::string& text) -> std::string {
        try {
            (void)gx::tools::parse_json(text, "f");
            return "read";
        } catch (const gx::Error& e) {
            return e.what();
        }
    };
    const auto nested = [](std::size_t n) {
        return std::string(n, '[') + "1" + std::string(n, ']');
    };
    EXPECT_EQ(told(nested(64)), "read");
    EXPECT_EQ(told(nested(65)), "f: nested deeper than 64 levels; expected at most as many");
    EXPECT_THAT(told(std::string(1'000'000, '[')), HasSubstr("f: nested deeper than 64"));
    EXPECT_EQ(told(R"([{"a": 1, "b": {"a": 2}}, {"a": 3}])"), "read");
    EXPECT_EQ(told(R"({"b": {"a": 1, "c": [{"a": 0}], "a": 2}})"),
              "f: field 'a' is given twice in one object; give it once");
    EXPECT_THAT(told("[1e999]"), HasSubstr("f: not JSON: "));
    EXPECT_THAT(told("[1, 2"), HasSubstr("f: not JSON: line 1"));
}

TEST(CaseFile, OneBadCaseLeavesTheOthersWhole) {
    const auto cases = read_cases(
        R"([7, {"id": "b", "conditions": {}, "measured": []}, {"id": "c", "conditions": 3}])", "f");
    ASSERT_EQ(cases.size(), 3u);
    EXPECT_THAT(cases[0].error, HasSubstr("a case is an object"));
    EXPECT_EQ(cases[0].id, "case 0");
    EXPECT_EQ(cases[1].error, "");
    EXPECT_THAT(cases[2].error, HasSubstr("field 'conditions'"));
    EXPECT_EQ(cases[2].id, "c");
}

TEST(CaseFile, NamesTheFieldThatIsWrong) {
    const auto measured = [](const std::string& point) {
        return error_of(R"({"id": "a", "conditions": {}, "measured": [)" + point + "]}");
    };
    EXPECT_THAT(measured(R"({"role": "base", "gpus": 1, "unit": "img/s"})"),
                HasSubstr("'measured[0].value': a point of role 'base' holds a value"));
    EXPECT_THAT(measured(R"({"role": "base", "gpus": 1, "value": -3, "unit": "img/s"})"),
                HasSubstr("'-3' is out of range: expected a number from"));
    EXPECT_THAT(measured(R"({"role": "base", "gpus": 1, "value": "x", "unit": "img/s"})"),
                HasSubstr("'x' is out of range"));
    EXPECT_THAT(measured(R"({"role": "target", "gpus": 2.5})"), HasSubstr("whole number"));
    EXPECT_THAT(measured(R"({"role": "goal", "gpus": 2})"),
                HasSubstr("'goal' is none of base, given, target"));
    EXPECT_THAT(error_of(R"({"conditions": {}, "measured": []})"), HasSubstr("'id' is missing"));
}

TEST(CaseFile, NumbersMayBeText) {
    const auto cases = read_cases(R"([{"id": "a", "conditions": {}, "measured": [
        {"role": "Base", "gpus": "1", "value": "2,800", "unit": "img/s"},
        {"role": "target", "gpus": "~16", "global_batch": 1024}]}])",
                                  "text.json");
    ASSERT_EQ(cases.at(0).error, "");
    EXPECT_EQ(cases[0].points.at(0).given, 2800.0);
    EXPECT_EQ(cases[0].points[0].role, Point::Role::base);
    EXPECT_EQ(cases[0].points.at(1).gpus, 16);
    EXPECT_EQ(cases[0].points[1].batch_per_gpu, 64);
    EXPECT_EQ(written_number(Json("16 GPUs")), 0);
    EXPECT_EQ(written_number(Json("1.2.3")), 0);
}

}  // namespace
