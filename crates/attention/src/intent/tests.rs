use super::*;
use proptest::prelude::*;

fn intent(text: &str, clues: Clues) -> Intent {
    classify_text(text, clues).intent
}

fn plain(text: &str) -> Intent {
    intent(text, Clues::default())
}

fn check(expected: Intent, texts: &str) {
    let read = texts.split('|').map(|text| (text.trim(), plain(text.trim())));
    let wrong: Vec<_> = read.filter(|(_, found)| *found != expected).collect();
    assert!(wrong.is_empty(), "not {expected}: {wrong:?}");
}

#[test]
fn thanks_in_many_languages() {
    check(
        Intent::Thanks,
        "thanks | Thanks! | THANK YOU!!! | thx | ty | @bob thanks | Thanks @bob, great work! | thaaanks |
         ok thanks | Perfect, thank you so much for your help 🙏 | **Thanks** everyone! | ｔｈａｎｋｓ |
         > here you are\nthanks | thanks 🎉🎉🎉 | 🙏 | ❤️ | Danke | Vielen Dank! | danke scho\u{308}n |
         Merci beaucoup ! | ¡Muchas gracias! | Obrigado | muito obrigada! | Grazie mille | Dank je wel |
         bedankt | Dziękuję bardzo | Dzięki! | Спасибо большое | спасибо!!! | Дякую | Щиро дякую! |
         Teşekkürler | TEŞEKKÜR EDERİM | sağ ol | 谢谢 | 谢谢！ | 谢谢谢谢 | 好的，谢谢大家 | 謝謝 | ありがとう | ありがとうございます！ |
         了解です、ありがとうございます | 감사합니다 | 고마워요~ | धन्यवाद | बहुत बहुत धन्यवाद | शुक्रिया | شكرا | شكراً جزيلاً |
         شُكْرًا",
    );
}

/// A long thanks asks for no more than a short one.
#[test]
fn thanks_at_some_length() {
    check(
        Intent::Thanks,
        "Thank you, that is very kind | Thank you, that's very kind of you! | Thanks a lot, this was very helpful |
         Thanks @bob, that helps a lot. Have a nice day! | Oh, how nice of you, thank you so much 🙏 |
         Great, exactly what I needed, thanks again | I really appreciate it, thank you for your time |
         Vielen Dank, das ist sehr nett von dir! | Danke, das hilft mir sehr | Merci, c’est très gentil de votre part |
         Muchas gracias, es muy amable de su parte | Obrigado, muito gentil da sua parte | Grazie mille, molto gentile |
         Dank je wel, dat is heel aardig | Dziękuję, to bardzo miłe z twojej strony |
         Спасибо, это очень любезно с вашей стороны | Дякую, це дуже мило | Teşekkürler, çok naziksiniz |
         谢谢，你真好 | 太感谢了，帮大忙了！ | ありがとうございます、とても助かりました | 감사합니다, 큰 도움이 됐어요 |
         धन्यवाद, आप बहुत दयालु हैं | شكرا، هذا لطف منك",
    );
    let rows = [
        ("thank you, but could you also check staging", Intent::Assignment),
        ("Thank you, that is very kind. Could you also look at the logs?", Intent::Assignment),
        ("that is very kind, but the build is still red", Intent::Thanks),
        ("Thanks, that helps. What about staging?", Intent::Question),
        ("Thanks, that is very kind of you, please deploy", Intent::Assignment),
        ("Danke, das ist sehr nett, kannst du es noch prüfen", Intent::Assignment),
        ("merci, c'est très gentil, peux-tu vérifier aussi", Intent::Assignment),
        ("gracias, muy amable, ¿puedes revisarlo?", Intent::Assignment),
        ("спасибо, очень мило, можешь проверить", Intent::Assignment),
        ("谢谢，你真好，请部署", Intent::Assignment),
        ("that is not very kind", Intent::Chat),
        ("that helps nobody", Intent::Chat),
        ("it is very helpful to have logs", Intent::Chat),
    ];
    for (text, expected) in rows {
        assert_eq!(plain(text), expected, "{text:?}");
    }
}

#[test]
fn acknowledgements_in_many_languages() {
    check(
        Intent::Acknowledgement,
        "ok | OK! | okkkk | Okay. | got it | Got it! | lgtm | LGTM 🚀 | 👍 | 👍🏽👍🏽 | ✅ | 👌 | @bob got it |
         sounds good | will do | roger that | noted | alles klar | Verstanden! | d'accord | D’accord |
         bien reçu | vale | entendido | beleza | va bene | begrepen | rozumiem | понял | хорошо | зрозуміло |
         добре | tamam | anladım | 好的 | 收到 | 了解しました | わかりました。 | 알겠습니다 | 네 | ठीक है | حسناً | تمام",
    );
}

#[test]
fn a_courtesy_with_something_behind_it_is_that() {
    let rows = [
        ("thanks, now please deploy", Intent::Assignment),
        ("Thanks! Can you also run the tests?", Intent::Assignment),
        ("ok, what about staging?", Intent::Question),
        ("thanks?", Intent::Question),
        ("ok?", Intent::Question),
        ("danke, kannst du das noch prüfen", Intent::Assignment),
        ("谢谢！请部署", Intent::Assignment),
        ("ありがとう、確認してください", Intent::Assignment),
        ("thanks, stop the deploy", Intent::Assignment),
    ];
    for (text, expected) in rows {
        assert_eq!(plain(text), expected, "{text:?}");
    }
    let named = Clues { is_directed: true, ..Clues::default() };
    assert_eq!(intent("thanks @bob, and fix the tests", named), Intent::Assignment);
}

/// It may be an order in words that no list knows, so the agent decides.
#[test]
fn a_courtesy_with_anything_else_behind_it_is_a_weak_one() {
    let weak = |intent| Classification { intent, confidence: Confidence::Low, layer: Layer::Lexicon };
    for (text, expected) in [
        ("thanks, but the build is red", weak(Intent::Thanks)),
        ("thanks, works now", weak(Intent::Thanks)),
        ("merged, thanks!", weak(Intent::Thanks)),
        ("thanks https://example.org", weak(Intent::Thanks)),
        ("thank you that solved it", weak(Intent::Thanks)),
        ("ok, I will restart the database tonight", weak(Intent::Acknowledgement)),
        ("no worries, we have until Friday", weak(Intent::Acknowledgement)),
        ("谢谢，现在好了", weak(Intent::Thanks)),
        ("copy that file", weak(Intent::Chat)),
        ("great, fix the tests", weak(Intent::Chat)),
        ("good morning", weak(Intent::Chat)),
    ] {
        assert_eq!(classify_text(text, Clues::default()), expected, "{text}");
    }
    let long = format!("thanks, {}", "the next chapter is about boats and ".repeat(8));
    assert_eq!(plain(&long), Intent::Chat);
}

#[test]
fn an_acknowledgement_to_somebody_who_asked_is_an_answer() {
    let rows = [
        ("ok", None, Intent::Acknowledgement),
        ("ok", Some(Intent::Chat), Intent::Acknowledgement),
        ("ok", Some(Intent::Question), Intent::Chat),
        ("👍", Some(Intent::ApprovalRequest), Intent::Approval),
        ("thanks", Some(Intent::Question), Intent::Thanks),
    ];
    for (text, answers, expected) in rows {
        assert_eq!(intent(text, Clues { answers, ..Clues::default() }), expected, "{text} {answers:?}");
    }
}

#[test]
fn what_a_person_says_to_an_agent_that_asked_is_an_answer() {
    let person = |text, answers| classify_text(text, Clues { by_person: true, answers, ..Clues::default() });
    let (question, request) = (Some(Intent::Question), Some(Intent::ApprovalRequest));
    let high = |intent, layer| Classification { intent, confidence: Confidence::High, layer };
    for (text, answers, expected) in [
        ("ok", request, high(Intent::Approval, Layer::Structure)),
        ("ok thanks", request, high(Intent::Approval, Layer::Structure)),
        ("ok thanks", question, high(Intent::Chat, Layer::Structure)),
        ("thanks", question, high(Intent::Chat, Layer::Structure)),
        ("yes, thank you", request, high(Intent::Chat, Layer::Structure)),
        ("never mind", question, high(Intent::Chat, Layer::Structure)),
        ("ERROR: no such file", question, high(Intent::Chat, Layer::Structure)),
        ("ok, but only on staging", request, high(Intent::Chat, Layer::Structure)),
        ("the first one", question, high(Intent::Chat, Layer::Structure)),
        ("go ahead", request, high(Intent::Approval, Layer::Lexicon)),
        ("stop", question, high(Intent::Cancellation, Layer::Lexicon)),
        ("never mind", None, high(Intent::Cancellation, Layer::Lexicon)),
        ("ok", Some(Intent::Status), high(Intent::Acknowledgement, Layer::Lexicon)),
    ] {
        assert_eq!(person(text, answers), expected, "{text} {answers:?}");
    }
    // Somebody who was given work, or told that the agent is blocked, may mean more than a courtesy.
    for answers in [Intent::Assignment, Intent::Blocker] {
        let expected = Classification {
            intent: Intent::Acknowledgement,
            confidence: Confidence::Low,
            layer: Layer::Structure,
        };
        assert_eq!(person("ok", Some(answers)), expected);
    }
    assert_eq!(person("why?", question).intent, Intent::Question);
    assert_eq!(person("please show me the diff", request).intent, Intent::Assignment);
}

#[test]
fn an_offer_waits_for_an_answer_as_a_question_does() {
    for (text, expected) in [
        ("I can also update the changelog. Tell me if you want that.", Intent::ApprovalRequest),
        ("Done. If you like, I can also do the other file.", Intent::ApprovalRequest),
        ("Fertig. Sag Bescheid, wenn ich auch das Changelog anpassen soll.", Intent::ApprovalRequest),
        ("Status: all green. Shall I go on?", Intent::ApprovalRequest),
        ("Please look at it. Is it what you want?", Intent::Question),
        ("Done. Let me know if you need anything else!", Intent::Chat),
        ("The parser is fixed.", Intent::Chat),
    ] {
        assert_eq!(of_answered(text, plain(text)), expected, "{text}");
    }
}

#[test]
fn questions() {
    check(
        Intent::Question,
        "what is the status | Why did it fail | is this right | does it work? | ready? | @bob? | ? | deploy?! |
         任务完成了吗 | هل انتهى؟ | ¿Está listo? | Готово? | 终わりましたか | 完了しましたか | どうですか？ | Έτοιμο\u{37e} | Պատրաստ՞ |
         wie geht das | done ❓ | The build is red. Why? | See https://a.b/?c=d. Any idea | how far are you |
         क्या यह हो गया",
    );
    check(
        Intent::Chat,
        "see https://a.b/c?d=e | look at `a ? b : c` there | > what?\nhere | it is what it is",
    );
}

#[test]
fn requests() {
    check(
        Intent::Assignment,
        "please deploy | Can you check whether the deploy is blocked? | could you look at this |
         Bob, can you check | deploy it, please | Könntest du das prüfen? | bitte prüfen | Peux-tu vérifier ? |
         ¿Puedes revisarlo? | você pode ver isso | puoi controllare | kun je kijken | czy możesz sprawdzić |
         можешь проверить | перевірте, будь ласка | lütfen kontrol et | 请检查 | 確認をお願いします | 확인해 주세요 |
         कृपया जाँचें | راجع هذا من فضلك | I need you to review this | TODO: review",
    );
    let named = Clues { is_directed: true, ..Clues::default() };
    for text in [
        "@bob deploy staging",
        "@bob: review this",
        "hey @bob, run the tests",
        "@bob fix the build",
        "@bob update the docs",
        "@bob status of the build",
    ] {
        assert_eq!(intent(text, named), Intent::Assignment, "{text}");
        assert_eq!(plain(text), Intent::Chat, "{text}");
    }
}

#[test]
fn approvals_blockers_cancellations_safety() {
    check(
        Intent::ApprovalRequest,
        "May I deploy? | shall I merge | ok to deploy? | Approval needed: drop the table | please approve |
         I need your approval | darf ich löschen? | puis-je supprimer ?",
    );
    check(
        Intent::Approval,
        "approved | Approved! | yes, go ahead | ok, approved, thanks | ship it 🚀 | @bob go ahead | genehmigt |
         aprobado | 批准 | 承認します | одобрено | 승인합니다",
    );
    check(Intent::Chat, "not approved | I have not approved anything | done | Done! | готово | yes");
    check(
        Intent::Blocker,
        "I'm blocked | Blocked on the key | blocker: no access | I can't proceed without the key |
         we are stuck on this | ich komme nicht weiter | 🚧 no access",
    );
    check(
        Intent::Cancellation,
        "stop | STOP!!! | @bob stop | please stop | stop it now | cancel | Cancel that. | never mind | wait |
         hold on | Hang on! | pause | warte | Moment mal | espera | para ya | attends | 等一下 | 待って |
         para por favor | arrête, s'il te plaît |
         止めてください | bitte stopp | abbrechen | vergiss es | arrête | annule | olvídalo | laat maar |
         anuluj | стоп | отмена | скасуй | iptal et | 取消 | 算了 | やめて | キャンセル | 취소 | रुको | توقف | 🛑",
    );
    check(
        Intent::Chat,
        "I will stop by later | stop by later | the bus stop is near | we cannot cancel the plan now",
    );
    // A stop word with anything else is an order, which interrupts nobody.
    check(
        Intent::Assignment,
        "Stop the deploy now | please cancel the job | stop, you are deleting production |
         stop the staging server and restart it | cancel my subscription | don't deploy the branch",
    );
    check(
        Intent::Safety,
        "Emergency: the reactor is open | safety issue in hall 3 | Security incident! Keys are public |
         🚨 leak | Notfall! | 紧急情况 | 緊急事態です",
    );
    check(Intent::Chat, "the emergency exit is left | I read about safety");
}

/// Programs write reports. A person passes them on, and may ask for help with them.
#[test]
fn what_a_person_pastes_may_ask_for_something() {
    let person = |text| intent(text, Clues { by_person: true, is_directed: true, ..Clues::default() });
    for (text, expected) in [
        ("[ERROR] test_parse failed", Intent::Log),
        ("ERROR: no such file. Can you look?", Intent::Assignment),
        ("ERROR: no such file\nwhy?", Intent::Question),
        ("Error: cannot find module", Intent::Status),
        ("Fehler: Modul nicht gefunden", Intent::Status),
        ("FYI the reviewer wants a test", Intent::Status),
        ("FYI the build is broken, fix it", Intent::Assignment),
        ("error handling is bad here", Intent::Chat),
    ] {
        assert_eq!(person(text), expected, "{text}");
    }
    check(Intent::Chat, "Error: cannot find module");
}

#[test]
fn forms_for_the_record() {
    check(
        Intent::Log,
        "[INFO] started | ERROR: no such file | 2026-06-02T19:10:00Z worker started | 2026-06-02 19:10:00 up |
         log: x | WARN retry? yes",
    );
    check(
        Intent::Progress,
        "[3/5] building | Progress: 40% | step 2 of 5: tests | 60% done | 12/40 files processed",
    );
    check(
        Intent::Status,
        "Status: all green | FYI the build is green | Update: deployed 1.2 | zur Info: alles läuft |
         статус: готово",
    );
    check(
        Intent::Chat,
        "Information about it | I am 100% sure | hello there | @bob | 2026 was good | errors happen",
    );
}

proptest! {
    #[test]
    fn any_text_has_one_intent(text in any::<String>(), is_directed: bool, by_person: bool) {
        let clues = Clues { is_directed, by_person, answers: None };
        prop_assert_eq!(intent(&text, clues), intent(&text, clues));
    }

    #[test]
    fn decoration_changes_no_courtesy(
        text in prop::sample::select(vec!["thanks", "ok", "danke", "спасибо", "谢谢", "감사합니다", "शुक्रिया", "stop", "approved"]),
        handle in "[a-z][a-z0-9]{0,9}",
        before in "[ *_~]{0,3}",
        after in "[ !.*_~]{0,5}",
    ) {
        let decorated = format!("@{handle} {before}{text}{after}");
        prop_assert_eq!(plain(&decorated), plain(text));
        prop_assert_eq!(plain(&decorated.to_uppercase()), plain(text));
    }

    /// A courtesy asks for nothing, so nothing that asks may pass for one.
    #[test]
    fn a_question_is_no_courtesy(text in "[a-z ,.!👍🙏]{0,40}\\?") {
        let courtesies = [Intent::Thanks, Intent::Acknowledgement, Intent::Approval, Intent::Cancellation];
        prop_assert!(!courtesies.contains(&plain(&text)));
    }
}
