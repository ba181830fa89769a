#include <tools/predict/predict.hpp>  // first, so the header is seen to stand alone

#include <array>             // pools
#include <cmath>             // isfinite
#include <cstdint>           // seeds
#include <initializer_list>  // texts
#include <random>            // mt19937_64
#include <string>            // names

#include <gmock/gmock.h>  // HasSubstr

#include <gx/core/error.hpp>        // Error
#include <tools/predict/score.hpp>  // score

namespace {

using namespace gx::tools;
using namespace gx::tools::predict;
using testing::AllOf;
using testing::HasSubstr;

/// A case that can be predicted; the tests spoil it.
Json good_case() {
    return parse_json(R"({"id": "mine", "conditions": {"gpu": "V100", "gpus_per_node": 8,
        "nic_gbps_per_node": 25, "transport": "TCP", "model": "ResNet-50", "batch_per_gpu": 64,
        "precision": "fp32", "framework": "PyTorch DDP", "collective": "NCCL"},
        "measured": [{"gpus": 8, "nodes": 1, "role": "base", "value": 2800, "unit": "img/s"},
                     {"gpus": 16, "nodes": 2, "role": "target"}]})",
                      "good");
}
std::string error_of(const Json& c) {
    Predictor predict;
    return predict(read_cases(Json::array({c}).dump(), "f").at(0)).error;
}
std::string error_with(const char* field, const Json& value) {
    Json c = good_case();
    c["conditions"][field] = value;
    return error_of(c);
}
std::string error_at(std::size_t point, const char* field, const Json& value) {
    Json c = good_case();
    c["measured"][point][field] = value;
    return error_of(c);
}

// ---- Cases worked by hand: numbers that mean nothing --------------------------------
TEST(Malformed, FieldsHaveLimits) {
    ASSERT_EQ(error_of(good_case()), "");
    EXPECT_THAT(error_with("gpus_per_node", 0.5),
                AllOf(HasSubstr("'conditions.gpus_per_node'"), HasSubstr("'0.5' is out of range"),
                      HasSubstr("whole number from 1 to 256")));
    for (const double x : {1e300, 1e23, -1.0, 0.0})
        EXPECT_THAT(error_with("gpus_per_node", x), HasSubstr("whole number from 1 to 256"));
    for (const double x : {1e300, 1e-300, 0.0})
        EXPECT_THAT(error_with("batch_per_gpu", x), HasSubstr("'conditions.batch_per_gpu'"));
    EXPECT_THAT(error_with("nic_gbps_per_node", 1e-300), HasSubstr("number from 0.001"));
    EXPECT_THAT(error_with("nic_gbps_per_node", "1e9 Gb/s"), HasSubstr("nic_gbps_per_node"));
    EXPECT_THAT(error_with("batch_per_gpu", "-5"), HasSubstr("'-5' is out of range"));
    EXPECT_THAT(error_with("batch_per_gpu", true), HasSubstr("expected a number, found true"));
    for (const char* words : {"n/a", "not stated", ""})
        EXPECT_EQ(error_with("gpus_per_node", words), "") << words;
    for (const Json& x : {Json(true), Json::object()})
        EXPECT_THAT(error_with("gpus_per_node", x),
                    HasSubstr("'conditions.gpus_per_node': expected a number, found " + x.dump()));
    for (const char* name : {"gpus", "value", "nodes"})
        for (const Json& x : {Json::array({8, 8}), Json(true), Json::object()})
            EXPECT_THAT(error_at(0, name, x), HasSubstr("'measured[0]." + std::string(name) +
                                                        "': expected a number, found " + x.dump()));
    for (const char* rate : {"fast", "10 furlongs", "25 (ENA)", "0 x 100 Gb/s", "0 x 100"})
        EXPECT_THAT(error_with("nic_gbps_per_node", rate),
                    HasSubstr("nic_gbps_per_node': '" + std::string(rate) + "' states no rate"));
    EXPECT_EQ(error_with("nic_gbps_per_node", "100 Gb/s, unknown adapter"), "");
    EXPECT_THAT(error_with("nic_gbps_per_node", Json::object()),
                HasSubstr("number or text, found"));
    EXPECT_THAT(error_with("batch_per_gpu", "1 024"),
                HasSubstr("batch_per_gpu': '1 024' is one number or two"));
    EXPECT_THAT(error_with("gradient_mb_fp32", 1e15), HasSubstr("from 1e-06 to 10000000"));
    EXPECT_THAT(error_with("params_millions", 1e12), HasSubstr("'conditions.params_millions'"));
    EXPECT_THAT(error_with("model", "GPT 99999999999B"), HasSubstr("'conditions.model'"));
    EXPECT_THAT(error_with("bucket_mb", 1e-6), HasSubstr("from 0.001 to"));
    EXPECT_THAT(error_with("parameter_servers", Json{{"16", -3}}),
                HasSubstr("'conditions.parameter_servers.16'"));
    EXPECT_THAT(error_at(0, "value", 5e-324), HasSubstr("'measured[0].value': "));
    EXPECT_THAT(error_at(0, "value", 1e-9), HasSubstr("milliseconds of a step"));
    EXPECT_THAT(error_at(1, "gpus", 1e300), HasSubstr("'measured[1].gpus'"));
    EXPECT_THAT(error_at(1, "nodes", 1e6), HasSubstr("1000000 nodes with 16 GPUs"));
}
/// Each was read by its first number, or by another.
TEST(Malformed, ANumberIsOneNumber) {
    const auto refused = [](const char* name, std::initializer_list<const char*> texts) {
        for (const char* text : texts)
            EXPECT_THAT(error_with(name, text),
                        AllOf(HasSubstr("field 'conditions." + std::string(name) + "': '" + text),
                              HasSubstr("not one number"), HasSubstr("write it in digits")))
                << name;
    };
    refused("batch_per_gpu",
            {"2 x 32", "2x32", "64,128", "64, 128", "1e3", "256/8", "64-128", "64 or 128",
             "512 global", "512 (64 per GPU)", "global 512, 64 per GPU", "2,0", "16384 (64 x 256)",
             "sixty-four", "64 \xe2\x86\x92 128", "64 K", "up to 64", "20~00"});
    refused("global_batch", {"8 x 64", "2^12", "4096 -> 8192", "1,02"});
    refused("bucket_mb", {"1 GB", "0.5 GB", "500 kB", "10-25", "25,0", "2.5e1"});
    refused("epochs", {"2 x 45", "60 to 90", "18 + 72", "90k iterations", "ninety"});
    refused("gpus_per_node", {"2 x 8", "2x4", "4 or 8", "4 of 8", "1,2", "2 sockets x 4", "eight"});
    for (const char* text :
         {"64", "per GPU: 64", "per-GPU 64", "~64", "64 per GPU", "64/GPU", "64 (512 global)",
          "1,024", "0.5k", "8k tokens", "64 images", "BS 64", "64 to epoch 30, then 128",
          "64, unknown optimizer", "not stated in the paper of 2019", "128, accumulated 64 times"})
        EXPECT_EQ(error_with("batch_per_gpu", text), "") << text;
    for (const char* text : {"25 MB", "25 MiB", "25 (default)", "no buckets"})
        EXPECT_EQ(error_with("bucket_mb", text), "") << text;
    for (const char* text : {"8 x V100", "4 (2 per socket)", "8 per node"})
        EXPECT_EQ(error_with("gpus_per_node", text), "") << text;
    for (const char* text : {"2,0", "1,9 2", "20~00", "2k", "2.000,5"})
        EXPECT_THAT(error_at(0, "value", text), HasSubstr("'" + std::string(text) + "' is out of"));
    for (const char* text : {"2,800", "2 800", "~2800"})
        EXPECT_EQ(error_at(0, "value", text), "") << text;
}
TEST(Malformed, CountsOfAccumulationAndServersAreCounts) {
    for (const char* text : {"128 with 4 accumulation steps", "128, gradient accumulation 64"})
        EXPECT_THAT(error_with("batch_per_gpu", text), HasSubstr("how many steps accumulate"));
    for (const char* text : {"128, accumulated 1,024 times", "128, accumulated 4x",
                             "128, accumulated over 64 steps", "128, not accumulated"})
        EXPECT_EQ(error_with("batch_per_gpu", text), "") << text;
    for (const Json& x : {Json("4 steps"), Json::array({true})})
        EXPECT_THAT(error_with("grad_accumulation", x),
                    HasSubstr("'conditions.grad_accumulation': expected true or false, found "));
    for (const Json& x : {Json(0), Json(-1), Json(1.5)})
        EXPECT_THAT(
            error_with("grad_accumulation", x),
            HasSubstr("'conditions.grad_accumulation': '" + x.dump() + "' is out of range"));
    for (const Json& x :
         {Json(1), Json(4), Json(true), Json("false"), Json("none"), Json("no accumulation")})
        EXPECT_EQ(error_with("grad_accumulation", x), "") << x;
    for (const Json& x : {Json("1 server"), Json(true), Json::array({1}), Json{{"16", "two"}}})
        EXPECT_THAT(error_with("parameter_servers", x),
                    HasSubstr("expected a whole number, found"));
    EXPECT_THAT(error_with("parameter_servers", Json{{"16 GPUs", 1}}),
                HasSubstr("'16 GPUs' is not a number of nodes or GPUs"));
    EXPECT_THAT(error_with("accumulation_steps_by_node_count", 16),
                HasSubstr("expected counts by the number of nodes"));
    for (const char* name : {"gpus_per_node", "bucket_mb", "epochs", "global_batch"})
        EXPECT_THAT(error_with(name, Json::array({8})), HasSubstr("expected a number, found [8]"));
}
TEST(Malformed, AStepHasALimitedNumberOfBuckets) {
    Json c = good_case();
    c["conditions"]["bucket_mb"] = 0.001;
    c["conditions"]["gradient_mb_fp32"] = 1e6;
    EXPECT_THAT(error_of(c), HasSubstr("more than 100000 buckets; expected at least"));
}
TEST(Malformed, AccumulationIsACount) {
    for (const double steps : {0.0, -4.0, 0.5, 1e300}) {
        Json c = good_case();
        c["conditions"]["grad_accumulation"] = true;
        c["conditions"]["micro_batch_per_gpu"] = 16;
        c["conditions"]["accumulation_steps_by_node_count"] = {{"1", 4}, {"2", steps}};
        EXPECT_THAT(error_of(c), AllOf(HasSubstr("accumulation_steps_by_node_count.2"),
                                       HasSubstr("whole number from 1 to")));
    }
}
/// A prediction does not see a target's value, so only the score refuses it.
TEST(Malformed, ATargetOfZeroIsRefusedByTheScore) {
    Json c = good_case();
    c["measured"][0]["unit"] = "s/step";
    c["measured"][1]["value"] = 0;
    EXPECT_EQ(error_of(c), "");
    const Score s = score(read_cases(Json::array({c}).dump(), "f"));
    ASSERT_EQ(s.failed.size(), 1u);
    EXPECT_THAT(s.failed[0].error, HasSubstr("'measured[1].value': '0' is out of range"));
    EXPECT_TRUE(s.points.empty());
}
TEST(Malformed, NestingIsLimited) {
    std::string deep = R"([{"id": "a", "conditions": {"gpu": )";
    deep += std::string(300'000, '[') + std::string(300'000, ']') + R"(}, "measured": []}])";
    EXPECT_THROW((void)read_cases(deep, "deep.json"), gx::Error);
}

// ---- Any nonsense: a value or an error, after bounded work --------------------------
class Nonsense {
public:
    explicit Nonsense(std::uint64_t seed) : random_(seed) {}

    [[nodiscard]] Json operator()() {
        Json c = good_case();
        const std::size_t changes = 1 + below(5);
        for (std::size_t i = 0; i < changes; ++i) spoil(c);
        return c;
    }

private:
    std::size_t below(std::size_t n) { return random_() % n; }
    template <std::size_t N>
    auto one_of(const std::array<const char*, N>& words) {
        return words[below(N)];
    }

    [[nodiscard]] Json value() {
        static constexpr std::array<double, 30> numbers{
            0,      -0.0,         -4,    0.5,   1,    2,    3,    7,     8,
            16,     64,           256,   1000,  4096, 1e5,  1e6,  1e7,   1e9,
            1e12,   1e15,         1e23,  1e300, 1e-3, 1e-6, 1e-9, 1e-12, 1e-300,
            5e-324, 2147483648.0, 9.3e18};
        static constexpr std::array<const char*, 14> words{"",
                                                           "not stated",
                                                           "8k",
                                                           "-3",
                                                           "1e300",
                                                           "128, accumulated 999999999 times",
                                                           "\x1b[31m",
                                                           "64 per GPU",
                                                           "99999999999999999999999",
                                                           "0.5",
                                                           "8 x 400",
                                                           "NaN",
                                                           "fp16",
                                                           "16, accumulated 3 times"};
        switch (below(10)) {
            case 0: return nullptr;
            case 1: return below(2) == 0;
            case 2: return Json::array({1, "two", Json::array({3})});
            case 3: return Json{{"1", numbers[below(30)]}, {"2", numbers[below(30)]}};
            case 4: return one_of(words);
            case 5: return std::uint64_t{random_()};
            default: return numbers[below(numbers.size())];
        }
    }
    void spoil(Json& c) {
        static constexpr std::array<const char*, 19> conditions{"gpu",
                                                                "gpus_per_node",
                                                                "nic_gbps_per_node",
                                                                "nic",
                                                                "transport",
                                                                "model",
                                                                "framework",
                                                                "collective",
                                                                "precision",
                                                                "gradient_mb_fp32",
                                                                "params_millions",
                                                                "batch_per_gpu",
                                                                "batch",
                                                                "micro_batch_per_gpu",
                                                                "global_batch",
                                                                "bucket_mb",
                                                                "epochs",
                                                                "accumulation_steps_by_node_count",
                                                                "parameter_servers"};
        static constexpr std::array<const char*, 7> point{
            "gpus", "nodes", "value", "batch_per_gpu", "batch", "global_batch", "unit"};
        static constexpr std::array<const char*, 9> units{
            "img/s", "s/step", "h for 90 epochs", "tokens/s", "%", "x", "days", "it/s", "us"};
        static constexpr std::array<const char*, 9> frameworks{"TensorFlow + Horovod",
                                                               "MXNet",
                                                               "MXNet dist_sync kvstore",
                                                               "Chainer",
                                                               "OneFlow",
                                                               "TensorFlow parameter server",
                                                               "TensorFlow 2017 replicated",
                                                               "PyTorch",
                                                               "nothing"};
        static constexpr std::array<const char*, 8> models{
            "VGG-16", "BERT-large", "GPT-3", "GPT 1e9B", "LSTM", "a new one", "AlexNet", "DLRM"};
        auto& all = c["conditions"];
        switch (below(8)) {
            case 0: {
                const char* f = one_of(frameworks);
                all["framework"] = f, all["collective"] = f;
                break;
            }
            case 1: all["model"] = one_of(models); break;
            case 2:
                all["grad_accumulation"] = true;
                all["micro_batch_per_gpu"] = value();
                all["accumulation_steps_by_node_count"] = value();
                break;
            case 3: c["measured"][0]["unit"] = one_of(units); break;
            case 4:
            case 5: c["measured"][below(2)][one_of(point)] = value(); break;
            default: all[one_of(conditions)] = value(); break;
        }
    }

    std::mt19937_64 random_;
};

TEST(Malformed, AThousandCasesEndWithAValueOrAnError) {
    int values = 0, errors = 0;
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        const Json c = Nonsense(seed)();
        SCOPED_TRACE(std::to_string(seed) + ": " + c.dump());
        Predictor predict;
        const Prediction p = predict(read_cases(Json::array({c}).dump(), "f").at(0));
        EXPECT_LT(predict.simulated(), 3'000'000u);
        ++(p.error.empty() ? values : errors);
        for (const PredictedPoint& q : p.points) {
            EXPECT_TRUE(std::isfinite(q.value) && q.value > 0) << q.value;
            EXPECT_TRUE(std::isfinite(q.step_ms) && q.step_ms > 0) << q.step_ms;
            EXPECT_TRUE(std::isfinite(q.efficiency_pct) && q.efficiency_pct > 0);
            EXPECT_TRUE(std::isfinite(q.exposed_ms) && q.exposed_ms >= 0) << q.exposed_ms;
        }
        if (!p.error.empty()) {
            EXPECT_TRUE(p.points.empty());
            EXPECT_EQ(p.error.find("json.exception"), std::string::npos) << p.error;
        }
    }
    EXPECT_GT(values, 100);
    EXPECT_GT(errors, 100);
}

}  // namespace
