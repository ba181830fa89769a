#include <gx/io/json_text.hpp>

#include <limits>  // infinity

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>  // reads it back
#include <rapidcheck/gtest.h>

TEST(JsonText, EscapesWhatJsonCannotHold) {
    EXPECT_EQ(gx::json_quoted("a\"b\\c\n"), R"("a\"b\\c\u000a")");
    EXPECT_EQ(gx::json_quoted(""), "\"\"");
    EXPECT_EQ(gx::json_quoted("\xc3\xa9"), "\"\xc3\xa9\"");  // UTF-8 goes through
}

TEST(JsonText, HasNoInfinity) {
    EXPECT_EQ(gx::json_number(std::numeric_limits<double>::infinity()), "null");
    EXPECT_EQ(gx::json_number(0.1), "0.1");
}

TEST(JsonWriter, PutsCommasBetweenItemsOnly) {
    gx::JsonWriter w;
    w.open('{').field("step", 3).field("on", true).name("rates").open('[');
    w.value(0.5).value(1.0).open('{').close('}').open('[').close(']').close(']');
    w.field("name", "a\"b").field("seed", ~std::uint64_t{0});
    w.field("none", -std::numeric_limits<double>::infinity()).close('}');
    EXPECT_EQ(w.text(), R"({"step":3,"on":true,"rates":[0.5,1,{},[]],"name":"a\"b",)"
                        R"("seed":18446744073709551615,"none":null})");
}

TEST(JsonWriter, IndentsAsAnotherWriterDoes) {
    gx::JsonWriter w(2);
    w.open('{').field("step", 3).name("rates").open('[').value(0.5).open('[').close(']');
    w.open('{').field("a", 1).close('}').close(']').name("none").open('{').close('}').close('}');
    EXPECT_EQ(w.text(), nlohmann::ordered_json::parse(w.text()).dump(2));
}

RC_GTEST_PROP(JsonText, AnotherReaderReadsTheSameText, (std::vector<std::uint8_t> bytes)) {
    std::string text;
    for (const std::uint8_t b : bytes) text += static_cast<char>(b & 0x7f);
    RC_ASSERT(nlohmann::json::parse(gx::json_quoted(text)).get<std::string>() == text);
}

RC_GTEST_PROP(JsonText, AnotherReaderReadsTheSameNumber, (double x)) {
    RC_ASSERT(nlohmann::json::parse(gx::json_number(x)).get<double>() == x);
}
