#include <gx/io/json_text.hpp>

#include <limits>  // infinity

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>  // reads it back
#include <rapidcheck/gtest.h>

#include <gx/io/utf8.hpp>  // utf8_prefix

TEST(JsonText, EscapesWhatJsonCannotHold) {
    EXPECT_EQ(gx::json_quoted("a\"b\\c\n"), R"("a\"b\\c\u000a")");
    EXPECT_EQ(gx::json_quoted(""), "\"\"");
    EXPECT_EQ(gx::json_quoted("\xc3\xa9"), "\"\xc3\xa9\"");  // UTF-8 goes through
}

TEST(JsonText, ReplacesWhatIsNotUtf8) {
    EXPECT_EQ(gx::json_quoted("caf\xe9.jpg"), R"("caf\ufffd.jpg")");
    EXPECT_EQ(gx::json_quoted("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")") << "a surrogate";
    EXPECT_EQ(gx::json_quoted("\xc0\xaf"), R"("\ufffd\ufffd")") << "longer than needed";
    EXPECT_EQ(gx::json_quoted("\xe2\x82"), R"("\ufffd\ufffd")") << "it ends too early";
    EXPECT_EQ(gx::json_quoted("\xf4\x90\x80\x80").size(), 26u) << "above U+10FFFF";
    EXPECT_EQ(gx::json_quoted("\xe2\x82\xac"), "\"\xe2\x82\xac\"");
    EXPECT_EQ(gx::json_quoted("\xf0\x9f\x98\x80"), "\"\xf0\x9f\x98\x80\"");
}

TEST(Utf8, APrefixEndsBehindAWholeCharacter) {
    using gx::detail::utf8_prefix;
    EXPECT_EQ(utf8_prefix("caf\xc3\xa9", 5), "caf\xc3\xa9");
    EXPECT_EQ(utf8_prefix("caf\xc3\xa9", 4), "caf") << "not half of a character";
    EXPECT_EQ(utf8_prefix("ab\xff"
                          "c",
                          9),
              "ab")
        << "up to what is no character";
    EXPECT_EQ(utf8_prefix("", 3), "");
    EXPECT_EQ(utf8_prefix("a", 0), "");
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

RC_GTEST_PROP(JsonText, AnotherReaderReadsWhateverTheBytes, (std::vector<std::uint8_t> bytes)) {
    const std::string text(bytes.begin(), bytes.end());
    const std::string quoted = gx::json_quoted(text);  // nlohmann throws at what is not UTF-8
    const bool whole = nlohmann::json::accept('"' + text + '"');
    const auto read = nlohmann::json::parse(quoted).get<std::string>();
    RC_ASSERT(!whole || read == text);
}

RC_GTEST_PROP(JsonText, AnotherReaderReadsTheSameNumber, (double x)) {
    RC_ASSERT(nlohmann::json::parse(gx::json_number(x)).get<double>() == x);
}
