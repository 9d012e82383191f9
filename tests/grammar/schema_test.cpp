// Which texts a schema allows.
#include <gtest/gtest.h>

#include "node/error.hpp"
#include "src/grammar/json_schema.hpp"
#include "tests/grammar/random_document.hpp"

namespace yamata {
namespace {

using Texts = std::vector<std::string>;

GrammarReader reader_of(const std::string& schema, const SchemaOptions& options = {}) {
  return GrammarReader(compile_json_schema(schema, options));
}

void expect_texts(const std::string& schema, const Texts& good, const Texts& bad, const SchemaOptions& options = {}) {
  GrammarReader reader = reader_of(schema, options);
  for (const std::string& text : good) EXPECT_TRUE(accepts(reader, text)) << schema << " allows " << text;
  for (const std::string& text : bad) EXPECT_FALSE(accepts(reader, text)) << schema << " forbids " << text;
}

std::string refusal(const std::string& schema) {
  try {
    compile_json_schema(schema);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(Schema, types_areThoseOfJson) {
  expect_texts(R"({"type":"null"})", {"null"}, {"", "nul", "nulll", "true", "0"});
  expect_texts(R"({"type":"boolean"})", {"true", "false", " true"}, {"null", "True", "true "});
  expect_texts(R"({"type":"integer"})", {"0", "-1", "42", "123456789012345678"},
               {"01", "1.5", "1.0", "-", "+1", "1e3", "1234567890123456789"});
  expect_texts(R"({"type":"number"})", {"0", "-1.5", "1e9", "2.50E-3"}, {".5", "1.", "1e", "NaN", "1e100"});
  expect_texts(R"({"type":["string","null"]})", {"null", "\"\"", "\"a\""}, {"1", "[]"});
  expect_texts("true", {"{}", "[1,{\"a\":[]}]", "\"x\"", "-2.5", "{\"a\":1, \"b\":null}"}, {"{", "[1,]", "{1:2}", "{\"a\"}", "[1 2]"});
  expect_texts("{}", {"[[[[[]]]]]"}, {"[[[[[]]]]"});
}

TEST(Schema, strings_areValidJsonAndUtf8) {
  const std::string any = R"({"type":"string"})";
  expect_texts(any, {R"("")", R"("a\n\"\\\/")", R"("\u00e9")", R"("\ud83d\ude00")", "\"é€😀\"", "\"\x7f\""},
               {R"("a)", "\"\n\"", R"("\x")", R"("\u12")", R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", "\"\xff\"", "\"\xc0\x80\"",
                "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"a\" "});
}

TEST(Schema, lengths_countCharacters) {
  expect_texts(R"({"type":"string","minLength":2,"maxLength":3})", {R"("ab")", "\"é€😀\"", R"("\u0041\n")", R"("\ud83d\ude00a")"},
               {R"("a")", R"("abcd")", R"("\ud83d\ude00")"});
  expect_texts(R"({"minLength":1})", {R"("a")", R"("abcdefg")"}, {R"("")", "1"});
  expect_texts(R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"});
}

TEST(Schema, objects_haveTheirPropertiesInOrder) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{}},"required":["b"]})";
  expect_texts(
      schema,
      {R"({"b":"x"})", R"({"a":1,"b":"x"})", R"({"a": 1, "b": "x", "c": [1]})", "{\n  \"a\": 1,\n  \"b\": \"\"\n}", R"({"b":"","c":{}})"},
      {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"x","d":1})", R"({"b":"x",})", R"({"b":"x" ,"c":1})", R"({"b":1})",
       R"({"b" :"x"})", R"({"b":"x","b":"x"})", R"({,"b":"x"})", "{\"b\":\"x\"\n\n}"});
  expect_texts(R"({"type":"object","properties":{"a":{},"b":{}}})", {"{}", R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})", "{ }"},
               {R"({"a":1,})"});
  expect_texts(R"({"type":"object","properties":{"a":{"const":1}},"additionalProperties":{"type":"integer"}})",
               {"{}", R"({"a":1})", R"({"x":2})", R"({"a":1,"x":2,"y":3})", R"({"aa":5})", R"({"":5})"},
               {R"({"a":2})", R"({"x":2,"a":1})", R"({"x":"s"})", R"({"\u0061":2})", R"({"x":2,})"});
  expect_texts(R"({"type":"object","required":["z"],"additionalProperties":{"type":"null"}})", {R"({"z":null})", R"({"z":null,"y":null})"},
               {"{}", R"({"y":null})"});
  expect_texts(R"({"type":"object"})", {"{}", R"({"any":[1]})"}, {"[]"});
  expect_texts(R"({"type":"object","properties":{"a":{}},"additionalProperties":true})", {R"({"b":1})"}, {});
  expect_texts(R"({"type":"object","properties":{}})", {"{}"}, {R"({"b":1})"});
}

TEST(Schema, whiteSpace_isBounded) {
  const std::string schema = R"({"type":"array","items":{"type":"integer"}})";
  const std::string blanks(20, ' ');
  expect_texts(schema, {"[]", "[ ]", "[1, 2]", "[\n" + blanks + "1,\n\t2\n]"},
               {"[  ]", "[\n\n]", "[\n" + blanks + " 1]", "[1 ,2]", "[1]\n"});
}

TEST(Schema, arrays_haveTheirNumberOfItems) {
  expect_texts(R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})", {"[1]", "[1,2,3]"},
               {"[]", "[1,2,3,4]", "[1,]", "[,1]"});
  expect_texts(R"({"type":"array","items":{"type":"null"},"minItems":2})", {"[null,null]", "[null,null,null,null]"}, {"[null]", "[]"});
  expect_texts(R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"});
  expect_texts(R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}]})", {R"([1,"a"])"},
               {"[1]", R"([1,"a",2])", R"(["a",1])"});
  expect_texts(R"({"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":0})",
               {"[]", "[1]", "[1,null,null]"}, {"[null]"});
  expect_texts(R"({"type":"array"})", {"[]", R"([1,"a",{}])"}, {"[1,]"});
}

TEST(Schema, constants_areWrittenAsTheyAre) {
  expect_texts(R"({"enum":["red","green",3,null,true]})", {"\"red\"", "3", "null", "true"},
               {"\"re\"", "red", "false", "\"redgreen\"", "33"});
  expect_texts(R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"});
  expect_texts(R"({"const":{"k":[1,{"x":"\"\n"}],"e":{}}})", {R"({"k":[1,{"x":"\"\n"}],"e":{}})", R"({"k": [1, {"x": "\"\n"}], "e": {}})"},
               {R"({"k":[1,{"x":"\"\n"}]})", "{}"});
  expect_texts(R"({"const":[]})", {"[]"}, {"[1]"});
  expect_texts(R"({"const":"é"})", {"\"é\""}, {"\"e\"", R"("\u00e9")"});
}

TEST(Schema, alternatives_areAll) {
  expect_texts(R"({"anyOf":[{"type":"integer"},{"type":"object","properties":{"a":{"const":1}},"required":["a"]},
                 {"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"]}]})",
               {"5", R"({"a":1})", R"({"a":1,"b":2})"}, {"{}", R"({"a":1,"b":3})", R"({"b":2})"});
  expect_texts(R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", "\"\""}, {"1.5"});
  expect_texts(R"({"anyOf":[{"type":"string","maxLength":2},{"type":"string","pattern":"^b*$"}]})", {"\"aa\"", "\"bbbb\""},
               {"\"aaa\"", "\"bbba\""});
  expect_texts(R"({"allOf":[{"type":"null"}]})", {"null"}, {"1"});
}

TEST(Schema, references_mayRecurse) {
  const std::string list = R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object",
    "properties":{"v":{"type":"integer"},"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/node"}]}},"required":["v","next"]}}})";
  expect_texts(list, {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
               {R"({"v":1,"next":{"v":2}})", R"({"v":1})"});
  expect_texts(R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]", "[[]"});
  std::string deep;
  for (int i = 0; i < 20000; ++i) deep += '[';
  GrammarReader reader = reader_of(R"({"type":"array","items":{"$ref":"#"}})");
  EXPECT_TRUE(accepts(reader, deep + std::string(20000, ']')));
  expect_texts(R"({"$ref":"#/definitions/a~1b%20c","definitions":{"a/b c":{"type":"null"}}})", {"null"}, {"1"});
}

TEST(Schema, numbers_areWithinTheirBounds) {
  expect_texts(R"({"type":"integer","minimum":3,"maximum":120})", {"3", "9", "10", "99", "120"}, {"2", "121", "1000", "0", "-5", "03"});
  expect_texts(R"({"type":"integer","minimum":-12,"exclusiveMaximum":5})", {"-12", "-1", "0", "4"}, {"-13", "5", "-100"});
  expect_texts(R"({"type":"integer","exclusiveMinimum":0})", {"1", "10", "999999"}, {"0", "-1", "-0"});
  expect_texts(R"({"type":"integer","maximum":-3})", {"-3", "-4", "-30"}, {"-2", "3", "0"});
  expect_texts(R"({"type":"integer","minimum":1.5,"maximum":2.5})", {"2"}, {"1", "3"});
  expect_texts(R"({"type":"number","minimum":0,"maximum":1})", {"0", "0.5", "1", "1.0", "0.0"}, {"-0.1", "1.1", "2", "1.01", "1e0"});
  expect_texts(R"({"type":"number","exclusiveMinimum":0.25,"exclusiveMaximum":1e2})", {"0.26", "0.251", "99.9", "1"},
               {"0.25", "0.250", "100", "0.2", "100.0"});
  expect_texts(R"({"type":"number","minimum":-1.5,"maximum":-0.5})", {"-1.5", "-1", "-0.5", "-0.75"}, {"-1.6", "-0.4", "0", "1"});
  EXPECT_EQ(refusal(R"({"type":"number","minimum":1e300,"maximum":2})"), "no JSON value is valid for the schema");
}

TEST(Schema, patterns_areFoundAnywhereUnlessAnchored) {
  const auto pattern = [](const std::string& p) { return R"({"type":"string","pattern":")" + p + "\"}"; };
  expect_texts(pattern("^[a-z]{2,3}$"), {"\"ab\"", "\"abc\""}, {"\"a\"", "\"abcd\"", "\"Ab\""});
  expect_texts(pattern("b+"), {"\"b\"", "\"abba\"", "\"é b\""}, {"\"\"", "\"aca\""});
  expect_texts(pattern("^a|b$"), {"\"ax\"", "\"xb\""}, {"\"xa\"", "\"bx\""});
  expect_texts(pattern("^(foo|ba[rz])-\\\\d+$"), {"\"foo-1\"", "\"baz-42\""}, {"\"foo-\"", "\"bax-1\""});
  expect_texts(pattern("^\\\"\\\\\\\\$"), {R"("\"\\")"}, {R"("\\")"});
  expect_texts(pattern("^[^x]é?$"), {"\"€\"", "\"aé\"", R"("\n")"}, {"\"x\"", R"("\u0061")"});
  expect_texts(pattern("^(?:a|b)*?c$"), {"\"c\"", "\"abac\""}, {"\"ab\""});
  expect_texts(R"({"type":"string","pattern":"^[ab]+$","minLength":2,"maxLength":3})", {"\"ab\"", "\"aba\""},
               {"\"a\"", "\"abab\"", "\"ac\""});
  expect_texts(R"({"type":"string","pattern":"^a","minLength":3})", {"\"abc\"", "\"abcd\""}, {"\"ab\"", "\"bcd\""});
}

TEST(Schema, formats_areSupportedByName) {
  const auto format = [](const std::string& f) { return R"({"type":"string","format":")" + f + "\"}"; };
  expect_texts(format("date"), {"\"2024-02-29\"", "\"1999-12-31\""}, {"\"2023-02-29\"", "\"2023-13-01\"", "\"2023-04-31\""});
  expect_texts(format("date-time"), {"\"2024-02-29T23:59:59Z\"", "\"2024-01-01T00:00:00.5+01:00\""}, {"\"2024-01-01\""});
  expect_texts(format("uuid"), {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567\""});
  expect_texts(format("ipv4"), {"\"192.168.0.1\""}, {"\"256.1.1.1\"", "\"01.1.1.1\""});
  EXPECT_NE(refusal(format("idn-email")).find("'format': 'idn-email' is not supported (supported: date"), std::string::npos);
}

TEST(Schema, whatIsNotSupported_isNamed) {
  const auto expect_named = [](const std::string& schema, const std::string& part) {
    EXPECT_NE(refusal(schema).find(part), std::string::npos) << schema << ": " << refusal(schema);
  };
  for (const char* keyword : {"not", "if", "patternProperties", "propertyNames", "minProperties", "uniqueItems", "contains",
                              "dependentRequired", "unevaluatedProperties", "$dynamicRef", "nullable", "multipleOf", "whatever"})
    expect_named(std::string("{\"type\":\"object\",\"properties\":{\"p\":{\"") + keyword + "\":true}}}",
                 std::string("'") + keyword + "' is not supported (at #/properties/p of the schema)");
  expect_named(R"({"anyOf":[{}],"minLength":3})", "'minLength' beside 'anyOf' is not supported");
  expect_named(R"({"$ref":"#/$defs/a","type":"string","$defs":{"a":{}}})", "'type' beside '$ref'");
  expect_named(R"({"enum":["a"],"maxLength":3})", "'maxLength' beside 'enum'");
  expect_named(R"({"$ref":"http://x"})", "is not within the schema");
  expect_named(R"({"$ref":"#/$defs/b"})", "names nothing");
  expect_named(R"({"oneOf":[{"type":"string"},{"minLength":2}]})", "alternatives 0 and 1");
  expect_named(R"({"allOf":[{},{}]})", "'allOf' of several");
  expect_named(R"({"items":[{}]})", "'items' must be a schema");
  expect_named(R"({"type":"strin"})", "'strin' is no type");
  expect_named(R"~({"pattern":"(?=a)"})~", "look-ahead");
  expect_named(R"({"pattern":"\\bx"})", "word boundaries");
  expect_named(R"({"pattern":"(a)\\1"})", "back references");
  expect_named(R"({"pattern":"a^b"})", "^ or $");
  expect_named(R"({"pattern":"(a"})", "without a )");
  expect_named(R"({"type":"integer","minimum":5,"maximum":4})", "no JSON value is valid");
  expect_named(R"({"required":["x"],"additionalProperties":false})", "'required' names 'x'");
  expect_named(R"({"type":"array","maxItems":8000,"items":{"enum":[1,2,3,4,5,6,7,8,9,"a","b","c","d","e","f","g","h","i","j","k","l",
      "m","n","o","p","q"]}})",
               "the schema is too large; lower maxLength or maxItems, or leave out alternatives");
  expect_named("false", "no JSON value is valid");
  expect_named("[1", "no valid JSON");
  expect_named("3", "a schema is an object");
  expect_named(R"({"type":"array","items":{"$ref":"#"},"minItems":1})", "no JSON value is valid");
  expect_named(R"({"$ref":"#"})", "no JSON value is valid");
}

TEST(Schema, oneOf_isAllowedWhereAlternativesDiffer) {
  const std::string by_kind = R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{}},"required":["kind"]},
    {"type":"object","properties":{"kind":{"enum":["b","c"]}},"required":["kind"]}]})";
  expect_texts(by_kind, {R"({"kind":"a","x":1})", R"({"kind":"c"})"}, {R"({"kind":"b","x":1})"});
  expect_texts(
      R"({"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"object","properties":{"b":{}},"required":["b"]}]})",
      {R"({"a":1})", R"({"b":1})"}, {R"({"a":1,"b":1})"});
  EXPECT_NE(refusal(R"({"oneOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}},"required":["b"]}]})"),
            "none");
}

TEST(Schema, hostileSchemas_areRefusedInALine) {
  std::string deep, doubled = R"({"$defs":{"d0":{"type":"null"})";
  for (int i = 0; i < 100000; ++i) deep += "{\"items\":";
  for (int i = 1; i < 30; ++i) {
    const std::string below = "{\"$ref\":\"#/$defs/d" + std::to_string(i - 1) + "\"}";
    doubled += ",\"d" + std::to_string(i) + "\":{\"anyOf\":[" + below + "," + below + "]}";
  }
  doubled += R"(},"$ref":"#/$defs/d29"})";
  EXPECT_EQ(refusal(doubled), "none");
  const std::vector<std::string> hostile{
      deep,
      "{\"minLength\":1000000000}",
      "{\"type\":\"array\",\"minItems\":18446744073709551615}",
      "{\"type\":\"array\",\"maxItems\":100000,\"items\":{\"type\":\"string\",\"maxLength\":100000}}",
      R"({"pattern":"(((a{1,1000}){1,1000}){1,1000}){1,1000}"})",
      R"({"pattern":"^(a|b)*a(a|b){30}$"})",
      "{\"pattern\":\"" + std::string(3000, '(') + "\"}",
      "{\"const\":\"" + std::string(2 << 20, 'x') + "\"}",
      R"({"properties":{")" + std::string(5000, 'k') + R"(":{}}})",
      "{\"minimum\":1e400}",
  };
  for (const std::string& schema : hostile) {
    const std::string why = refusal(schema);
    EXPECT_NE(why, "none") << schema.substr(0, 80);
    EXPECT_LT(why.size(), 500u);
    EXPECT_EQ(why.find('\n'), std::string::npos);
  }
}

TEST(Schema, freeText_precedesATrigger) {
  const std::string schema = R"({"type":"object","properties":{}})";
  const SchemaOptions thinking{.trigger = "</think>"}, tool{.trigger = "<tool>", .trigger_required = false};
  expect_texts(schema, {"x { \" } </think>{}", "</think>\n\n{}", "</th</think>{}", "<<</think>{}"},
               {"{}", "x</think>", "</think>x</think>{}", "x"}, thinking);
  expect_texts(schema, {"hello", "", "hello <tool>{}"}, {"hello <tool>", "<tool>{}x"}, tool);
}

TEST(Schema, randomDocuments_areAllowed) {
  std::mt19937 random(7);
  for (const char* schema :
       {"{}", R"({"type":"array","items":{"$ref":"#"}})",
        R"({"type":"object","properties":{"a":{"type":"number","minimum":-2.5},"b":{"pattern":"x.y"}},"required":["b"]})"}) {
    GrammarReader reader = reader_of(schema);
    for (int i = 0; i < 200; ++i) {
      const std::string text = random_document(reader, random);
      if (!text.empty()) {
        EXPECT_TRUE(accepts(reader, text)) << text;
      }
    }
  }
}

}  // namespace
}  // namespace yamata
