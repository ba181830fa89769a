#include "grid.hpp"  // first, so the header is seen to stand alone

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <support/files.hpp>  // error_of, holds

namespace {

using gx::bench::Grid;
using testing_support::holds;

const std::vector<std::string> known{"Ring<fp32>", "MultiRing<2, fp32>"};
const std::string sound = R"({"eager_bytes": 1024, "repeats": 3, "least_wire_ms": 50,
"fabrics": [{"name": "two", "hosts": 2, "rate": 100},
            {"name": "leaves", "hosts": 4, "rate": 100, "leaf": 2, "trunk": 50, "slow": "2:75"}],
"reducers": ["Ring<fp32>", "MultiRing<2, fp32>"], "bytes": [16384, 2097152]})";

Grid grid(const std::string& text) { return gx::bench::read_grid(text, "g.json", known); }
/// Of the sound text, in which `before` is replaced.
std::string refusal(const std::string& before, const std::string& after) {
    std::string text = sound;
    text.replace(text.find(before), before.size(), after);
    return testing_support::error_of([&] { (void)grid(text); });
}

TEST(Grid, IsReadFromJson) {
    const Grid g = grid(sound);
    ASSERT_EQ(g.fabrics.size(), 2u);
    EXPECT_EQ(g.fabrics[0].name, "two");
    EXPECT_EQ(g.fabrics[0].leaf, 0);
    EXPECT_EQ(g.fabrics[1].trunk, 50);
    EXPECT_EQ(g.fabrics[1].slow, "2:75");
    EXPECT_EQ(g.reducers, known);
    EXPECT_EQ(g.bytes, (std::vector{16384, 2097152}));
    EXPECT_EQ(g.eager_bytes, 1024);
    EXPECT_EQ(g.repeats, 3);
    EXPECT_EQ(g.least_wire_ms, 50);
}

TEST(Grid, ErrorsNameFileAndField) {
    const auto expect = [](const char* before, const char* after, const char* field,
                           const char* why) {
        const std::string sentence = refusal(before, after);
        EXPECT_TRUE(holds(sentence, "g.json: ", field, why)) << sentence;
    };
    expect(R"("hosts": 2)", R"("hosts": "2")", "line 2: field 'fabrics[0].hosts'",
           "a whole number from 2 to 16");
    expect(R"("hosts": 2)", R"("hosts": 1)", "'fabrics[0].hosts'", "from 2 to 16");
    expect(R"("hosts": 2,)", "", "'fabrics[0].hosts'", "is missing");
    expect(R"("rate": 100)", R"("rate": null)", "'fabrics[0].rate'", "whole number");
    expect(R"("name": "two")", R"("name": 2)", "'fabrics[0].name'", "is not a string");
    expect(R"("leaf": 2)", R"("leaf": 4)", "'fabrics[1].leaf'", "from 1 to 3");
    expect(R"("leaf": 2, )", "", "'fabrics[1].leaf'", "is missing: give leaf and trunk");
    expect(R"("trunk": 50, )", "", "'fabrics[1].trunk'", "is missing: give leaf and trunk");
    expect(R"("slow")", R"("slwo")", "'fabrics[1]'", "'slow'");
    for (const char* slow : {"", ":", "2", "2:", ":75", "4:75", "-0:75", "02:75", "99999999999:75",
                             "2:0", "2:10001", "2:75x", "2: 75", "2:75:1"})
        expect(R"("2:75")", ('"' + std::string(slow) + '"').c_str(),
               "line 3: field 'fabrics[1].slow'",
               "is not HOST:MBIT, a host from 0 to 3 and a rate from 1 to 10000");
    expect(R"("two")", R"("")", "'fabrics[0].name'", "is empty");
    expect(R"("two")", R"("leaves")", "line 3: field 'fabrics[1].name'",
           "'leaves' is also the name of another fabric");
    expect(R"([16384, 2097152])", "16384", "'bytes'", "not an array");
    expect(R"([16384, 2097152])", "[]", "'bytes'", "is empty: give at least one");
    expect(R"([16384, 2097152])", R"(["16384"])", "'bytes'", "whole number from 64");
    expect(R"("Ring<fp32>")", "7", "'reducers'", "names of reducers");
    expect(R"("Ring<fp32>")", R"("Ring<fp23>")", "'reducers'", "'Ring<fp32>'");
    expect(R"("repeats": 3)", R"("repeats": 0)", "'repeats'", "from 1");
    expect(R"("least_wire_ms": 50)", R"("least_wire_ms": -1)", "'least_wire_ms'", "from 0 to 1e9");
    expect(R"("least_wire_ms": 50)", R"("least_wire_ms": 1e10)", "'least_wire_ms'", "to 1e9");
    expect(R"("least_wire_ms": 50)", R"("least_wire_ms": "5")", "'least_wire_ms'", "a number");
    expect(R"("fabrics")", R"("fabric")", "field 'fabrics'", "is missing");
    expect("{", "[{", "g.json: not JSON: ", "line 4");
    const auto whole = [](const char* text) {
        return testing_support::error_of([&] { (void)grid(text); });
    };
    EXPECT_EQ(whole("[1]"), "g.json: the text is not an object");
    EXPECT_TRUE(holds(whole(R"({"eager_bytes": 1, "repeats": 1, "least_wire_ms": 1,
"fabrics": []})"),
                      "line 2: field 'fabrics' is empty: give at least one"));
}

}  // namespace
