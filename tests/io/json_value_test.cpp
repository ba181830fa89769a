#include <gx/io/json_value.hpp>

#include <bit>      // bit_cast
#include <cmath>    // isfinite
#include <cstdio>   // snprintf
#include <limits>   // numeric_limits
#include <utility>  // forward

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>  // another reader
#include <rapidcheck/gtest.h>

namespace {

using gx::JsonValue;

std::string told(auto f) {
    try {
        f();
    } catch (const gx::JsonError& e) {
        return e.what();
    }
    return "no error";
}

/// The value as the other library holds it.
nlohmann::ordered_json other(const JsonValue& v) {
    nlohmann::ordered_json out;
    switch (v.kind) {
        case JsonValue::Kind::null: break;
        case JsonValue::Kind::boolean: out = v.boolean(); break;
        case JsonValue::Kind::number: out = nlohmann::ordered_json::parse(v.text); break;
        case JsonValue::Kind::string: out = v.string(); break;
        case JsonValue::Kind::array:
            out = nlohmann::ordered_json::array();
            for (const JsonValue& item : v.items) out.push_back(other(item));
            break;
        case JsonValue::Kind::object:
            out = nlohmann::ordered_json::object();
            for (const JsonValue& item : v.items) out[item.name] = other(item);
    }
    return out;
}

// ---- Cases worked by hand -----------------------------------------------------------

TEST(JsonValue, HoldsWhatStandsThere) {
    const JsonValue v = gx::read_json(
        " {\"a\": [1, -2.5e1, true, null], \"b\": {\"c\": \"x\\n\\u00e9\\ud83d\\ude00\"}} ");
    ASSERT_EQ(v.items.size(), 2u);
    const auto& a = v.at("a").array();
    ASSERT_EQ(a.size(), 4u);
    EXPECT_EQ(a[0].integer(), 1);
    EXPECT_EQ(a[1].number(), -25);
    EXPECT_TRUE(a[2].boolean());
    EXPECT_EQ(a[3].kind, JsonValue::Kind::null);
    EXPECT_EQ(v.at("b").at("c").string(), "x\n\xc3\xa9\xf0\x9f\x98\x80");
    EXPECT_EQ(v.find("d"), nullptr);
}
TEST(JsonValue, KeepsAll64Bits) {
    EXPECT_EQ(gx::read_json("18446744073709551615").integer<std::uint64_t>(), ~std::uint64_t{0});
    EXPECT_EQ(gx::read_json("-9223372036854775808").integer(),
              std::numeric_limits<std::int64_t>::min());
}

// ---- Against another reader ---------------------------------------------------------

RC_GTEST_PROP(JsonValue, ReadsStringsAsAnotherWriterWritesThem, (std::vector<std::uint16_t> cs)) {
    std::string text;
    for (const std::uint16_t c : cs)
        if (c < 0xd800 || c > 0xdfff) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", unsigned{c});
            text += escaped;
        }
    const auto theirs = nlohmann::json::parse('"' + text + '"');
    RC_ASSERT(gx::read_json('"' + text + '"').string() == theirs.get<std::string>());
    RC_ASSERT(gx::read_json(theirs.dump()).string() == theirs.get<std::string>());
    RC_ASSERT(gx::read_json(theirs.dump(-1, ' ', true)).string() == theirs.get<std::string>());
}
RC_GTEST_PROP(JsonValue, ReadsNumbersBitForBit, (std::uint64_t bits)) {
    const double x = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(x));
    RC_ASSERT(gx::read_json(nlohmann::json(x).dump()).number() == x);
}
/// Random edits of a good text: the two readers take the same ones, for the same value.
/// Two edits, and digits up to 2, because the other one refuses numbers past a double's range.
RC_GTEST_PROP(JsonValue, AcceptsWhatAnotherReaderAccepts, ()) {
    std::string text = R"( {"a":[1,-0.5e+1,{"b":"x\"\u00e9y"},[]],"é":true,"c":null,"d":{},)"
                       R"("e":10E2,"f":false,"g":"\ud83d\ude00é😀"} )";
    const std::string pieces =
        "{}[]\",:\\012.eE+-truefalsn \n\t\x01\x7f\x80\xbf\xc0\xc3\xa9"
        "\xe0\xed\xa0\xf0\xf4\x90\xf8\xff/ubdD8";
    for (int edits = *rc::gen::inRange(0, 3); edits > 0; --edits) {
        const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
        const char c = *rc::gen::elementOf(pieces);
        switch (*rc::gen::inRange(0, 3)) {
            case 0: text[at] = c; break;
            case 1: text.insert(at, 1, c); break;
            case 2: text.erase(at, 1);
        }
    }
    const auto theirs = nlohmann::ordered_json::parse(text, nullptr, false);
    RC_CLASSIFY(theirs.is_discarded());
    if (theirs.is_discarded()) {
        RC_ASSERT_THROWS_AS((void)gx::read_json(text), gx::JsonError);
    } else {
        RC_ASSERT(other(gx::read_json(text)).dump() == theirs.dump());
    }
}

// ---- Bad texts and wrong kinds ------------------------------------------------------

TEST(JsonValue, SaysWhereItIsNotJson) {
    const auto at = [](std::string_view text) { return told([&] { (void)gx::read_json(text); }); };
    EXPECT_EQ(at(""), "not JSON: line 1, column 1: a value or a digit is expected");
    EXPECT_EQ(at("[1,]"), "not JSON: line 1, column 4: a value or a digit is expected");
    EXPECT_EQ(at("[1 2]"), "not JSON: line 1, column 4: ',' or ']' is expected");
    EXPECT_EQ(at("{\"a\"}"), "not JSON: line 1, column 5: ':' is expected");
    EXPECT_EQ(at("{} x"), "not JSON: line 1, column 4: something follows the value");
    EXPECT_EQ(at("\"a"),
              "not JSON: line 1, column 3: a string holds a control character, or has no end");
    EXPECT_EQ(at("\"\\ud800\""), "not JSON: line 1, column 8: half of a surrogate pair");
    EXPECT_EQ(at(std::string(1000, '[')), "not JSON: line 1, column 202: it is nested too deeply");
    EXPECT_EQ(at(std::string_view("1\0", 2)),
              "not JSON: line 1, column 2: something follows the value");
}
template <class V>
concept FindsInside = requires(V&& v) { std::forward<V>(v).find("a"); };
static_assert(FindsInside<const JsonValue&> && !FindsInside<JsonValue>, "it would end before use");

/// A loop over the array of a value that ends, as over one that has a name.
TEST(JsonValue, GivesWhatIsInItAwayWhereItEnds) {
    int sum = 0;
    for (const JsonValue& v : gx::read_json("[1, 20, 300]").array()) sum += v.integer<int>();
    for (const JsonValue& v : gx::read_json(R"({"a": [4000]})").at("a").array())
        sum += v.integer<int>();
    EXPECT_EQ(sum, 4321);
    const std::string& text = gx::read_json(R"("longer than a short string is")").string();
    EXPECT_EQ(text, "longer than a short string is");
}
TEST(JsonValue, KnowsItsLine) {
    const JsonValue v = gx::read_json("{\n\"a\": 1,\r\n\"b\":\n [true,\n\n null]}");
    EXPECT_EQ(v.line, 1);
    EXPECT_EQ(v.at("a").line, 2);
    EXPECT_EQ(v.at("b").line, 4);
    EXPECT_EQ(v.at("b").array()[1].line, 6);
    EXPECT_EQ(told([] { (void)gx::read_json("[\n 1,\n  2x]"); }),
              "not JSON: line 3, column 4: ',' or ']' is expected");
}
TEST(JsonValue, NamesTheFieldThatDoesNotFit) {
    const JsonValue v = gx::read_json(R"({"a":"1","b":1.5,"c":1e400,"d":300})");
    EXPECT_EQ(told([&] { (void)v.at("z"); }), "field 'z' is missing");
    EXPECT_EQ(told([&] { (void)v.at("a").number(); }), "field 'a' is not a number");
    EXPECT_EQ(told([&] { (void)v.at("b").integer(); }),
              "field 'b' is not a whole number within its range");
    EXPECT_EQ(told([&] { (void)v.at("c").number(); }), "field 'c' is not a number");
    for (const char* tiny : {"1e-400", "-1e-400", "4.9e-5000", "1E-999999"})
        EXPECT_EQ(gx::read_json(tiny).number(), 0) << tiny;
    const std::string zeros(400, '0');
    EXPECT_EQ(gx::read_json("0." + zeros + "1").number(), 0);
    EXPECT_EQ(gx::read_json("1" + zeros + "e-399").number(), 10);
    for (const std::string& huge : {std::string("-1e400"), "1" + zeros, "1" + zeros + "e-5"})
        EXPECT_EQ(told([&] { (void)gx::read_json(huge).number(); }), "a value is not a number");
    EXPECT_EQ(told([&] { (void)v.at("d").integer<std::int8_t>(); }),
              "field 'd' is not a whole number within its range");
    EXPECT_EQ(told([&] { (void)v.at("b").string(); }), "field 'b' is not a string");
    EXPECT_EQ(told([&] { (void)v.at("b").boolean(); }), "field 'b' is not true or false");
    EXPECT_EQ(told([&] { (void)v.array(); }), "a value is not an array");
}

}  // namespace
